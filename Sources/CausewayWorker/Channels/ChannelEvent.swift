import APNs
import Glibc

/// An event of the channel keeper. The worker turns events into log lines and metrics; `causeway channels` prints some
/// of them.
package enum ChannelEvent: Sendable {
    case created(ChannelEntry)
    case deleted(ChannelEntry)
    /// APNs no longer has the channel of this entry. The keeper then tries to create another one.
    case lost(ChannelEntry)
    /// The keeper has deleted a channel at APNs that belonged to no audience. Usually a failed creation had left the
    /// channel there.
    case channelWithoutEntryDeleted(channel: String, app: String, environment: String)
    /// The number of channels at APNs that other programs created, or may have created.
    case unknownChannelsCounted(channelCount: Int, app: String, environment: String)
    case creationFailed(audience: String, app: String, environment: String, reason: String)
    /// What a worker has read in the registry (Redis' list of channels) during its periodic work.
    case registryRead(app: String, environment: String, Reconciliation.RegistryContent)
    /// The number of channels at APNs, including those of other programs.
    case channelsCounted(app: String, environment: String, channelCount: Int)
    /// An error about an app in an environment. If `app` and `environment` are nil, it may concern any app.
    case failed(reason: String, app: String?, environment: String?)
}

/// Why there is no channel, or why an operation on a channel failed.
package struct ChannelFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The reason and what to do, for operators.
    package var reason: String
    /// After a failed creation, or a failed read of the channels topic: until this time (monotonic milliseconds), each
    /// further attempt fails at once with this failure. Has no effect in any other failure.
    package var retryPauseEndMilliseconds: Int64
    /// Whether the cause may end by itself: usually APNs, Redis or Kafka is down or busy, so requests for other
    /// channels would probably fail too. False: a lasting failure, which usually concerns only one channel.
    package var isTransient: Bool

    package var description: String { reason }

    package init(reason: String, retryPauseEndMilliseconds: Int64, isTransient: Bool = true) {
        self.reason = reason
        self.retryPauseEndMilliseconds = retryPauseEndMilliseconds
        self.isTransient = isTransient
    }

    init(_ error: any Error, retryPauseEndMilliseconds: Int64, isTransient: Bool = true) {
        self =
            error as? ChannelFailure
            ?? ChannelFailure(
                reason: "\(error)",
                retryPauseEndMilliseconds: retryPauseEndMilliseconds,
                isTransient: isTransient
            )
    }
}

enum CurrentProcess {
    /// The name of the host and the id of the process. Operators see them in intents.
    static var hostAndProcessIdentifier: String {
        var host = [CChar](repeating: 0, count: 256)
        gethostname(&host, host.count - 1)
        let hostName = host.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        return "\(hostName)/\(getpid())"
    }
}
