import Delivery
import LiveActivity

/// One connection of a pool: how many streams it has, and whether it takes any.
struct SimulatedConnection {
    /// What the core was told of a push, to be held against what it does next.
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
    /// One request until the first answer.
    var isCold = true
    /// GOAWAY came: what is below its last stream is awaited, and nothing new is sent.
    var isDraining = false
    /// It takes its first push.
    var opensAt: Int64
}
