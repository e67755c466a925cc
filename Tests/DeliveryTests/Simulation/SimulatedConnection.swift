import Delivery
import LiveActivity

/// One connection of a pool: its number of streams, and whether it accepts pushes.
struct SimulatedConnection {
    /// The answer to a push that the core has got, to compare with what the core does next.
    struct Told {
        var offset: Int64
        var partition: Int32
        var version: Version
        var sentTimestamp: Int64
        var disposition: PushResult.Disposition
        var connection: UInt32
    }

    let number: UInt32
    var streamsMax: Int
    /// One request at a time until the first answer.
    var isCold = true
    /// GOAWAY has come: pushes up to its last stream still get answers, and nothing new is sent.
    var isDraining = false
    /// The connection accepts its first push.
    var opensAt: Int64
}
