import Delivery
import LiveActivity

/// One connection of a pool to APNs.
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
    /// Whether APNs has sent GOAWAY. The worker then sends no new pushes on this connection. APNs still responds to the
    /// pushes on streams up to the last one that GOAWAY names.
    var isDraining = false
    /// When the connection begins to take pushes, in virtual milliseconds.
    var opensAtMilliseconds: Int64
}
