import ActivityStore
import LiveActivity
import Redis

/// The command that ends an activity whose lifetime is over. It has no content state, so the last state stays on the screen, and no
/// alert.
struct LifetimeCommand: Equatable {
    /// The activity's id: producers give their records the same key, so the command goes to the same partition.
    let key: [UInt8]
    let value: [UInt8]

    /// Nil if another program wrote the claim.
    init?(_ claim: SharedHashes.Claim, nowMilliseconds: Int64) {
        let words = claim.text.split(separator: " ")
        guard let (app, activity) = LifetimeKey.subject(ofActivityKey: claim.name), words.count == 3,
            let began = Int64(words[1])
        else { return nil }
        let aps = Array(#"{"event":"end","timestamp":\#(nowMilliseconds / 1_000)}"#.utf8)
        let identifier = Array(LifetimeIdentifier.text(beganMilliseconds: began).utf8)
        var writer = JSONWriter()
        app.withUnsafeBytes { app in
            activity.withUnsafeBytes { activity in
                aps.withUnsafeBytes { aps in
                    identifier.withUnsafeBytes { identifier in
                        var record = CommandRecord(app: app, activity: activity, aps: aps)
                        record.identifier = identifier
                        record.write(to: &writer)
                    }
                }
            }
        }
        key = activity
        value = Array(writer.bytes)
    }
}
