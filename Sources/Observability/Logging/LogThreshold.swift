import Logging
import Synchronization

/// The lowest level that is logged. All loggers share the threshold, and it can change while they log.
package final class LogThreshold: Sendable {
    private let position: Atomic<Int>

    package init(_ level: Logger.Level) {
        position = Atomic(Self.position(of: level))
    }

    package var level: Logger.Level {
        get { Logger.Level.allCases[position.load(ordering: .relaxed)] }
        set { position.store(Self.position(of: newValue), ordering: .relaxed) }
    }

    private static func position(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}
