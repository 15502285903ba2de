//! Kafka's leg, in a process of its own.

use std::path::Path;
use std::process::Command;

/// Runs a leg of `benches/java/KafkaLegs.java` over a folder, where `KAFKA_CLASSPATH` names Kafka's jars, and prints what it
/// says.
pub(crate) fn kafka(leg: &str, folder: &Path, arguments: &[String]) {
    let Ok(jars) = std::env::var("KAFKA_CLASSPATH") else {
        println!("kafka    KAFKA_CLASSPATH names no jars");
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/java/KafkaLegs.java");
    let done = Command::new("java")
        .args(["-cp", &jars])
        .arg(program)
        .arg(leg)
        .arg(folder)
        .args(arguments)
        .output()
        .expect("java runs");
    print!("{}", String::from_utf8_lossy(&done.stdout));
    if !done.status.success() {
        print!("{}", String::from_utf8_lossy(&done.stderr));
    }
}
