import LiveActivity

@testable import CausewayLab

/// A history that a test writes. Times are milliseconds from its beginning.
struct History {
    static let zero: Int64 = 1_790_000_000_000

    private var history = OutageHistory()

    /// Adds a command to activity `a` or to the named one.
    mutating func command(
        _ number: UInt64,
        _ event: Event = .update,
        of activity: String = "a",
        at milliseconds: Int64,
        alert: Bool = false,
        ageSeconds: Int64 = 0,
        expiresAt: Int64? = nil,
        isValid: Bool = true
    ) {
        history.commands.append(
            OutageHistory.Command(
                app: "match",
                activity: activity,
                event: event,
                version: Version(timestamp: (Self.zero + milliseconds) / 1_000 - ageSeconds, sequence: number),
                alert: alert ? "Alert \(number)" : nil,
                state: "\(activity)-\(number)",
                producedMilliseconds: Self.zero + milliseconds,
                expiresMilliseconds: expiresAt.map { Self.zero + $0 },
                isValid: isValid
            )
        )
    }

    mutating func push(
        _ number: UInt64,
        of activity: String = "a",
        at milliseconds: Int64,
        alert: UInt64? = nil,
        status: Int = 200,
        _ effect: OutageHistory.Effect? = .shown
    ) {
        history.pushes.append(
            OutageHistory.Push(
                milliseconds: Self.zero + milliseconds,
                status: status,
                activity: activity,
                alert: alert.map { "Alert \($0)" },
                state: "\(activity)-\(number)",
                effect: effect
            )
        )
    }

    /// Adds the push with which Causeway ends an activity whose lifetime is over. This push has no state.
    mutating func endLifetime(of activity: String = "a", at milliseconds: Int64) {
        history.pushes.append(
            OutageHistory.Push(
                milliseconds: Self.zero + milliseconds,
                status: 200,
                activity: activity,
                effect: .ended
            )
        )
    }

    mutating func screen(_ number: UInt64, of activity: String = "a", isFinished: Bool = false) {
        history.screens[activity] = OutageHistory.Screen(number: number, isFinished: isFinished)
    }

    func verdict(
        at milliseconds: Int64 = 30_000,
        bounds: AgeBounds = AgeBounds(),
        crash: Crash? = nil,
        afterLifetime: AfterLifetime? = nil
    ) -> OutageVerdict {
        var ended = history
        ended.endMilliseconds = Self.zero + milliseconds
        return OutageJudge.verdict(
            of: ended,
            bounds: bounds,
            crashes: crash.map { [$0] } ?? [],
            afterLifetime: afterLifetime
        )
    }
}
