"""Writes and reads topics through an independent Kafka client."""

import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from processes import Failure

FLUSH_SECONDS = 60


class TopicWriter:
    """Writes records, and counts those that the broker refused."""

    def __init__(self, deployment, settings):
        self.end_offsets = {}
        """The offset after the last record that this writer has written, by topic and partition."""
        self._refused_count = 0
        own = {"bootstrap.servers": deployment.bootstrap_servers, "partitioner": "murmur2_random", "log_level": 0}
        self._producer = Producer(own | settings)

    def write(self, topic, key, value):
        while True:
            try:
                self._producer.produce(topic, key=key, value=value, on_delivery=self._on_delivery)
                return
            except BufferError:
                self._producer.poll(0.1)

    def poll_deliveries(self):
        """Takes the broker's responses so far, without waiting."""
        self._producer.poll(0)

    def flush(self):
        """Waits until the broker has all records."""
        if self._producer.flush(FLUSH_SECONDS) or self._refused_count:
            raise Failure(f"the broker has not taken all: {self._refused_count} refused")

    def _on_delivery(self, error, message):
        if error is not None:
            self._refused_count += 1
            return
        place = (message.topic(), message.partition())
        self.end_offsets[place] = max(self.end_offsets.get(place, 0), message.offset() + 1)


class TopicReader(threading.Thread):
    """Reads partitions from their beginning until `finish` is called. A subclass handles the messages in
    `handle`."""

    def __init__(self, name, deployment, partitions):
        """`partitions`: pairs of topic and number."""
        super().__init__(name=name, daemon=True)
        self._stop_event = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": deployment.bootstrap_servers, "client.id": name, "group.id": name, "log_level": 0,
                "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in partitions])

    def handle(self, message):
        """Handles one message, on the reader's thread."""
        raise NotImplementedError

    def run(self):
        while not self._stop_event.is_set():
            for message in self._consumer.consume(5_000, 0.2):
                if not message.error():
                    self.handle(message)

    def finish(self):
        self._stop_event.set()
        self.join()
        self._consumer.close()
