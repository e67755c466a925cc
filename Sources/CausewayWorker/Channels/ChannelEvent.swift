import APNs
import Glibc

/// An event of the channel keeper. The worker turns events into log lines and metrics; `causeway channels` prints some
/// of them.
package enum ChannelEvent: Sendable {
    case created(ChannelEntry)
    case deleted(ChannelEntry)
    /// APNs no longer has a channel that the registry lists for an audience. The keeper then tries to create another
    /// channel.
    case lost(ChannelEntry)
    /// The keeper has deleted a channel at APNs that no entry names. Usually a failed creation left the channel there.
    case channelWithoutEntryDeleted(channel: String, app: String, environment: String)
    /// The number of channels at APNs that Causeway did not create, as far as it knows.
    case unknownChannels(count: Int, app: String, environment: String)
    case refused(audience: String, app: String, environment: String, String)
    /// The content of the registry, which each worker reads in its periodic work.
    case registryRead(app: String, environment: String, Reconciliation.RegistryContent)
    /// The number of channels at APNs, including those of other programs.
    case channelsCounted(app: String, environment: String, channelCount: Int)
    /// An error. `app` and `environment` say where the error happened; nil means that it concerns all apps or
    /// environments.
    case failed(String, app: String?, environment: String?)
}

/// Why there is no channel, or why an operation on a channel failed.
package struct ChannelFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The reason and what to do, for operators.
    package var text: String
    /// When the keeper may try again, UNIX milliseconds. Until then, the keeper throws this failure at each request.
    /// Only a failed creation or a failed read of the channels topic causes such a pause. After any other failure, the
    /// keeper ignores this value and tries again at each request.
    package var retryPauseEndMilliseconds: Int64
    /// Whether the cause may end by itself. Usually APNs, Redis or Kafka is then down or busy, so that requests for
    /// other channels would probably fail too.
    package var isTransient: Bool

    package var description: String { text }

    package init(text: String, retryPauseEndMilliseconds: Int64, isTransient: Bool = true) {
        self.text = text
        self.retryPauseEndMilliseconds = retryPauseEndMilliseconds
        self.isTransient = isTransient
    }

    init(_ error: any Error, retryPauseEndMilliseconds: Int64, isTransient: Bool = true) {
        self =
            error as? ChannelFailure
            ?? ChannelFailure(
                text: "\(error)",
                retryPauseEndMilliseconds: retryPauseEndMilliseconds,
                isTransient: isTransient
            )
    }
}

enum CurrentProcess {
    /// Host and process id, written into intents for operators.
    static var hostAndProcessIdentifier: String {
        var host = [CChar](repeating: 0, count: 256)
        gethostname(&host, host.count - 1)
        let text = host.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        return "\(text)/\(getpid())"
    }
}

/// Returns the time of the wall clock (CLOCK_REALTIME), UNIX milliseconds.
func readWallClockMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
}
