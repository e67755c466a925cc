import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes the records of {@link GoalRecords} to Kafka: {@code java SendGoal BOOTSTRAP_SERVERS}, with kafka-clients. */
public final class SendGoal {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("enable.idempotence", "true");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (var record : GoalRecords.records(Instant.now().getEpochSecond())) {
                producer.send(new ProducerRecord<>(record.topic(), record.key(), record.value())).get();
            }
        }
    }
}
