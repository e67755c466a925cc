import Delivery
import LiveActivity

/// One connection of a pool: its number of streams, and whether it accepts pushes.
struct SimulatedConnection {
    /// The last response to a record's push. It decides whether this record may be pushed again, and how.
    struct LastResponse {
        var offset: Int64
        var partition: Int32
        var version: Version
        var sentTimestamp: Int64
        var disposition: PushResult.Disposition
        var connection: UInt32
    }

    let number: UInt32
    var streamsMax: Int
    /// Whether APNs has accepted no push of this connection yet. Such a connection takes one push at a time.
    var isCold = true
    /// Whether GOAWAY has come. APNs still responds to pushes up to GOAWAY's last stream, and the worker sends no
    /// new ones.
    var isDraining = false
    /// From when on the connection takes pushes, in virtual milliseconds.
    var opensAtMilliseconds: Int64
}
