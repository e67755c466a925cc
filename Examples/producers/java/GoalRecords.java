import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;

/** A phone's registration and a goal. {@code java GoalRecords} prints both records: topic, key and value in each line. */
public final class GoalRecords {
    static final String APP = "com.example.match";
    static final long SECONDS_FROM_1970_TO_2001 = 978_307_200;

    /** The record that the app's server writes when the app reports a token. */
    record Registration(
            String app, String activity, String token, String environment, long registeredAt, boolean frequentUpdates) {}

    /**
     * The same fields as the app's ContentState in Swift. The app's JSONDecoder reads a Date as seconds since 2001. Apple's own keys in
     * aps are UNIX seconds.
     */
    record ContentState(int home, int away, long kickOff) {}

    record Alert(String title, String body, String sound) {}

    record Aps(
            String event,
            long timestamp,
            @JsonProperty("stale-date") long staleDate,
            @JsonProperty("content-state") ContentState contentState,
            Alert alert) {}

    record Command(String app, String activity, String id, Aps aps) {}

    /** A record as it is written to Kafka. */
    record KafkaRecord(String topic, String key, String value) {}

    static List<KafkaRecord> records(long now) throws IOException {
        String activity = "final-phone-21";
        var registration = new Registration(APP, activity, "5c1e0a77b2d4f839", "production", now * 1000, true);
        var state = new ContentState(1, 0, now - 1020 - SECONDS_FROM_1970_TO_2001);
        var aps = new Aps("update", now, now + 600, state, new Alert("Goal for Rovers", "1:0", "default"));
        // Jackson always writes the fields of a type in the same order, so the same state always has the same bytes.
        var mapper = new ObjectMapper();
        return List.of(
                new KafkaRecord("causeway.registrations", activity, mapper.writeValueAsString(registration)),
                new KafkaRecord(
                        "causeway.commands",
                        activity,
                        mapper.writeValueAsString(new Command(APP, activity, "goal-1-0", aps))));
    }

    public static void main(String[] arguments) throws IOException {
        for (KafkaRecord record : records(1790000000)) {
            System.out.println(String.join("\t", record.topic(), record.key(), record.value()));
        }
    }
}
