import APNs
import Glibc

/// An event of the keeper, for logs, metrics and people.
package enum ChannelEvent: Sendable {
    case created(ChannelEntry)
    case deleted(ChannelEntry)
    /// Somebody else deleted the channel. A new channel replaces it.
    case lost(ChannelEntry)
    case orphanDeleted(channel: String, app: String, environment: String)
    /// The number of channels at APNs that are not ours.
    case unknown(Int, app: String, environment: String)
    case refused(audience: String, app: String, environment: String, String)
    /// What is known, as each worker reads it once a minute.
    case registerRead(app: String, environment: String, Reconciliation.Known)
    /// The number of channels at APNs, including those of other programs.
    case listed(app: String, environment: String, channels: Int)
    /// An error. `app` and `environment` say where; nil: it concerns all.
    case trouble(String, app: String?, environment: String?)
}

/// Why there is no channel, or why an operation on a channel failed.
package struct ChannelRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    /// For people, with advice.
    package var text: String
    /// Until this time the same request is refused again, UNIX milliseconds.
    package var untilMilliseconds: Int64
    /// Whether the cause is a service that is away or busy. Then requests for other channels fail too.
    package var isTransient: Bool

    package var description: String { text }

    package init(text: String, untilMilliseconds: Int64, isTransient: Bool = true) {
        self.text = text
        self.untilMilliseconds = untilMilliseconds
        self.isTransient = isTransient
    }

    init(_ error: any Error, untilMilliseconds: Int64, isTransient: Bool = true) {
        self =
            error as? ChannelRefusal
            ?? ChannelRefusal(text: "\(error)", untilMilliseconds: untilMilliseconds, isTransient: isTransient)
    }
}

enum ChannelProcess {
    /// Host and process id, for people who read an intent.
    static var name: String {
        var host = [CChar](repeating: 0, count: 256)
        gethostname(&host, host.count - 1)
        let text = host.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        return "\(text)/\(getpid())"
    }
}

/// CLOCK_REALTIME, UNIX milliseconds.
func wallMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
}
