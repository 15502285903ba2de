// In the place of spark-token-provider-kafka-0-10, which Maven Central lacks for this version. Spark's Kafka source asks it
// about delegation tokens; a broker without authentication has none.
package org.apache.spark.kafka010

import java.{util => ju}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf

class KafkaTokenClusterConf

object KafkaTokenUtil {
  def findMatchingTokenClusterConfig(conf: SparkConf, servers: String): Option[KafkaTokenClusterConf] = None

  def needTokenUpdate(params: ju.Map[String, Object], cluster: Option[KafkaTokenClusterConf]): Boolean = false
}

object KafkaRedactionUtil {
  def redactParams(params: Seq[(String, Object)]): Seq[(String, String)] =
    params.map { case (name, value) => (name, String.valueOf(value)) }
}

class KafkaConfigUpdater(module: String, given: Map[String, Object]) {
  private val params = new ju.HashMap[String, Object](given.asJava)

  def set(name: String, value: Object): this.type = { params.put(name, value); this }

  def setIfUnset(name: String, value: Object): this.type = { params.putIfAbsent(name, value); this }

  def setAuthenticationConfigIfNeeded(): this.type = this

  def setAuthenticationConfigIfNeeded(cluster: Option[KafkaTokenClusterConf]): this.type = this

  def build(): ju.Map[String, Object] = params
}
