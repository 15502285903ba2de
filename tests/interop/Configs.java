import java.util.TreeSet;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Names of all configurations that are not sensitive: of brokers, topics, groups, client metrics. */
public class Configs {
    public static void main(String[] args) throws Exception {
        ConfigDef[] all = {
            AbstractKafkaConfig.CONFIG_DEF, LogConfig.configDefCopy(), GroupConfig.CONFIG_DEF, ClientMetricsConfigs.configDef()
        };
        TreeSet<String> open = new TreeSet<>();
        for (ConfigDef def : all) {
            def.configKeys().values().stream().filter(key -> !key.type.isSensitive()).forEach(key -> open.add(key.name));
        }
        open.forEach(System.out::println);
    }
}
