import Logging
import Synchronization

/// The lowest level that is logged. All loggers share it, and it can change at any time.
package final class LogThreshold: Sendable {
    private let levelIndex: Atomic<Int>

    package init(_ level: Logger.Level) {
        levelIndex = Atomic(Self.levelIndex(of: level))
    }

    package var level: Logger.Level {
        get { Logger.Level.allCases[levelIndex.load(ordering: .relaxed)] }
        set { levelIndex.store(Self.levelIndex(of: newValue), ordering: .relaxed) }
    }

    private static func levelIndex(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}
