import Delivery
import LiveActivity

/// One connection of a pool: its number of streams, and whether it accepts pushes.
struct SimulatedConnection {
    /// The last answer to a push. The core's next push of the same record is compared with it.
    struct LastAnswer {
        var offset: Int64
        var partition: Int32
        var version: Version
        var sentTimestamp: Int64
        var disposition: PushResult.Disposition
        var connection: UInt32
    }

    let number: UInt32
    var streamsMax: Int
    /// Whether APNs has answered no request yet. Until then the connection takes one request at a time.
    var isCold = true
    /// Whether GOAWAY has come: pushes up to its last stream still get answers, and no new ones are sent.
    var isDraining = false
    /// When the connection accepts its first push, in milliseconds.
    var opensAt: Int64
}
