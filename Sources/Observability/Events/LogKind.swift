import Logging

/// A kind of log line. Its identifier appears as `kind` in each line, in `causeway_log_lines_suppressed_total`, on
/// /statusz, and in `METRICS.md`, which explains the kind.
package enum LogKind: UInt8, CaseIterable, Sendable {
    case workerStarted
    case workerStopped
    case workerFailed
    case workerDraining
    case drainTimeOver
    case httpFailed

    case partitionsAssigned
    case partitionsRevoked
    case partitionsPaused
    case partitionsResumed
    case partitionsTooMany
    case partitionIsNew
    case offsetGone
    case settledOffsetsRefused
    case kafkaUnreachable
    case kafkaReachableAgain
    case kafkaError
    case kafkaFatal
    case kafkaClient
    case kafkaCloseLate
    case resultNotProduced
    case recordGivenUp
    case commandUndecodable

    case redisReady
    case redisLost
    case redisWarning
    case redisRefused
    case redisError
    case redisReplicasMissing
    case redisReplicasAvailableAgain
    case redisEmptied
    case redisReplaced
    case rereadingBegan
    case membersMissing
    case clockWrong
    case clockRightAgain

    case apnsConnected
    case apnsAuthenticated
    case apnsStreamLimit
    case apnsGoaway
    case apnsRetiring
    case apnsClosed
    case apnsUntrusted
    case apnsUnresolved
    case apnsConnectionLimit
    case apnsBreakerOpen
    case apnsBreakerClosed
    case apnsDrained
    case providerTokenRefused

    case keyReadableByOthers
    case keyOffered
    case keyLoaded
    case keyRejected
    case channelCreated
    case channelDeleted
    case channelLost
    case channelOrphanDeleted
    case channelRefused
    case channelsUnknown
    case channelUpkeepFailed

    case sharedTokenSigned
    case sharedTokensUnavailable
    case sharedTokensAvailableAgain
    case sharedTokenUnreadable
    case sharedTokenNotSigned
    case lifetimeEndsInterrupted
    case lifetimeEndsResumed
    case lifetimeNotEnded
    case lifetimeStateLost
    case lifetimeFormatUnknown
    case lifetimesUnknownApp
    case configurationReloaded
    case configurationRejected
    case configurationNeedsRestart
    case tracesRefused
    case tracesAccepted
    case tracesDropped

    package var definition: LogKindDefinition { LogKindCatalog.definitions[Int(rawValue)] }

    /// The failures that have ended when a line of this kind is logged: for `redisReady`, the failure `redisLost`. If
    /// the ``LogRepetitionLimiter`` remembers such a failure, the line is written even beyond
    /// ``LimitedLog/linesPerPeriodMax``.
    var endedFailureKinds: [LogKind] {
        switch self {
        case .kafkaReachableAgain: [.kafkaUnreachable]
        case .redisReady: [.redisLost]
        case .clockRightAgain: [.clockWrong]
        case .redisReplicasAvailableAgain: [.redisReplicasMissing]
        case .apnsConnected: [.apnsClosed, .apnsUntrusted, .apnsUnresolved]
        case .apnsBreakerClosed: [.apnsBreakerOpen]
        case .keyLoaded: [.keyRejected]
        case .sharedTokensAvailableAgain: [.sharedTokensUnavailable]
        case .lifetimeEndsResumed: [.lifetimeEndsInterrupted]
        case .configurationReloaded: [.configurationRejected]
        case .tracesAccepted: [.tracesRefused]
        default: []
        }
    }

    /// The kind's text in logs and metrics, in small letters and hyphens.
    package var identifier: String { definition.identifier }
}

/// The level and the texts of a kind of log line.
package struct LogKindDefinition: Sendable {
    package var kind: LogKind
    package var identifier: String
    package var level: Logger.Level
    /// The text of the line: what has happened. The metadata has the details.
    package var message: String
    /// What the line says to an operator, in a sentence. METRICS.md has it.
    package var meaning: String
    /// What an operator should do; empty if nothing is needed.
    package var action: String
}
