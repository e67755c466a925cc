import LiveActivity

@testable import CausewayLab

/// A history that a test writes. Times are milliseconds from its beginning.
struct TestHistory {
    static let beginMilliseconds: Int64 = 1_790_000_000_000

    private var history = OutageHistory()

    /// Adds a command to activity `a` or to the named one.
    mutating func addCommand(
        _ number: UInt64,
        _ event: Event = .update,
        of activity: String = "a",
        at milliseconds: Int64,
        hasAlert: Bool = false,
        ageSeconds: Int64 = 0,
        expiresAtMilliseconds: Int64? = nil,
        isValid: Bool = true
    ) {
        history.commands.append(
            OutageHistory.Command(
                app: "match",
                activity: activity,
                event: event,
                version: Version(
                    timestamp: (Self.beginMilliseconds + milliseconds) / 1_000 - ageSeconds,
                    sequence: number
                ),
                alertTitle: hasAlert ? "Alert \(number)" : nil,
                stateDigest: "\(activity)-\(number)",
                producedAtMilliseconds: Self.beginMilliseconds + milliseconds,
                expiresAtMilliseconds: expiresAtMilliseconds.map { Self.beginMilliseconds + $0 },
                isValid: isValid
            )
        )
    }

    mutating func addPush(
        _ number: UInt64,
        of activity: String = "a",
        at milliseconds: Int64,
        alert: UInt64? = nil,
        status: Int = 200,
        _ effect: OutageHistory.Effect? = .shown
    ) {
        history.pushes.append(
            OutageHistory.Push(
                arrivedAtMilliseconds: Self.beginMilliseconds + milliseconds,
                status: status,
                activity: activity,
                alertTitle: alert.map { "Alert \($0)" },
                stateDigest: "\(activity)-\(number)",
                effect: effect
            )
        )
    }

    /// Adds the push with which Causeway ends an activity whose lifetime is over. This push has no state.
    mutating func addLifetimeEnd(of activity: String = "a", at milliseconds: Int64) {
        history.pushes.append(
            OutageHistory.Push(
                arrivedAtMilliseconds: Self.beginMilliseconds + milliseconds,
                status: 200,
                activity: activity,
                effect: .ended
            )
        )
    }

    mutating func setScreen(_ number: UInt64, of activity: String = "a", isFinished: Bool = false) {
        history.screens[activity] = OutageHistory.Screen(sequence: number, isFinished: isFinished)
    }

    func findings(
        at milliseconds: Int64 = 30_000,
        ageLimits: AgeLimits = AgeLimits(),
        crash: AlertRepeatCause? = nil,
        afterLifetime: AfterLifetime? = nil
    ) -> OutageFindings {
        var endedHistory = history
        endedHistory.screensReadAtMilliseconds = Self.beginMilliseconds + milliseconds
        return OutageChecker.findings(
            of: endedHistory,
            ageLimits: ageLimits,
            alertRepeatCauses: crash.map { [$0] } ?? [],
            afterLifetime: afterLifetime
        )
    }
}
