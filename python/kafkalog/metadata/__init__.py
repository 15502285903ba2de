"""The parts of an old cluster that a new one needs, read from disks and written as code.

``cluster`` is the model, ``reading`` fills it from log dirs, and ``kafka_script``, ``strimzi`` and ``document`` write
it: as commands of Kafka's own tools, as Kubernetes resources, as JSON.
"""
