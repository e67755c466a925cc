import Foundation

/// What the app tells its server: one report for each token, and one when an activity is over.
struct LiveActivityReport: Codable, Equatable, Sendable {
    enum Kind: String, Codable, Sendable {
        /// The update token of a running activity.
        case activity
        /// The push-to-start token of this device, for one type of activity.
        case device
        /// The activity was ended or dismissed.
        case ended
    }

    var kind: Kind
    /// This installation of the app. It is the device in commands.
    var device: String
    /// The activity's id in commands. Nil for a device.
    var activity: String?
    var audiences: [String] = []
    var attributesType: String
    /// The token in hexadecimal digits. Nil for an activity that is over.
    var token: String?
    /// How old the report is. The phone's clock may be wrong, so the server subtracts this from its own.
    var ageMilliseconds: Int = 0
    /// Whether the token is from Apple's sandbox.
    var isSandbox: Bool
    var frequentUpdates: Bool
    /// Whether activities may begin on a broadcast channel: iOS 18 and newer.
    var channels: Bool
}

#if canImport(ActivityKit)
import ActivityKit

/// What Causeway needs to know about a type of activity.
protocol ReportedAttributes: ActivityAttributes {
    /// The activity's id in commands. The server must be able to choose the same one: "final-" and the device, for example.
    func causewayActivity(device: String) -> String
    /// The audiences that the activity belongs to, at most 8.
    var causewayAudiences: [String] { get }
}

/// Reports all tokens of Live Activities to the app's server.
///
/// Call ``observe(_:)`` for each type in `application(_:didFinishLaunchingWithOptions:)`. The system starts the app in the background
/// when a push has started an activity, and gives it a few seconds. An observer that begins later misses the token.
@available(iOS 17.2, *)
@MainActor
final class LiveActivityTokens {
    private let send: @Sendable (LiveActivityReport) async throws -> Void
    private let device: String
    private var observedActivities: Set<String> = []
    private var deviceTokens: [String: Data] = [:]

    /// The audiences whose starts this device gets, at most 8: the teams that the person follows, for example. Each change is reported.
    var deviceAudiences: [String] = [] {
        didSet {
            guard deviceAudiences != oldValue else { return }
            for (type, token) in deviceTokens { report(deviceToken: token, attributesType: type) }
        }
    }

    /// - Parameters:
    ///   - device: an id of this installation: the same at every launch, another one after the app was deleted.
    ///   - send: sends a report to the app's server. It throws if the server has not confirmed it.
    init(device: String, send: @escaping @Sendable (LiveActivityReport) async throws -> Void) {
        self.device = device
        self.send = send
    }

    /// Begins to report the tokens of a type of activity, and of the activities that run already.
    func observe<Attributes: ReportedAttributes>(_ type: Attributes.Type) {
        // The sequences give a token when it changes. The present one may have come at an earlier launch.
        let name = String(describing: type)
        if let token = Activity<Attributes>.pushToStartToken { report(deviceToken: token, attributesType: name) }
        Task {
            for await token in Activity<Attributes>.pushToStartTokenUpdates {
                report(deviceToken: token, attributesType: name)
            }
        }
        for activity in Activity<Attributes>.activities { observe(activity) }
        Task {
            for await activity in Activity<Attributes>.activityUpdates { observe(activity) }
        }
        Task {
            // The person has switched frequent updates. Activities that still run are reported with the new value.
            for await _ in ActivityAuthorizationInfo().frequentPushEnablementUpdates {
                for activity in Activity<Attributes>.activities {
                    if let token = activity.pushToken { report(token: token, of: activity) }
                }
            }
        }
    }

    private func observe<Attributes: ReportedAttributes>(_ activity: Activity<Attributes>) {
        guard observedActivities.insert(activity.id).inserted else { return }
        if let token = activity.pushToken { report(token: token, of: activity) }
        Task {
            // The token can change while the activity runs.
            for await token in activity.pushTokenUpdates { report(token: token, of: activity) }
        }
        Task {
            for await state in activity.activityStateUpdates where state == .ended || state == .dismissed {
                reportEnd(of: activity)
                return
            }
        }
    }

    private func report(deviceToken: Data, attributesType: String) {
        deviceTokens[attributesType] = deviceToken
        var report = report(.device, token: deviceToken, attributesType: attributesType)
        report.audiences = deviceAudiences
        deliver(report)
    }

    private func report<Attributes: ReportedAttributes>(token: Data, of activity: Activity<Attributes>) {
        var report = report(.activity, token: token, attributesType: String(describing: Attributes.self))
        report.activity = activity.attributes.causewayActivity(device: device)
        report.audiences = activity.attributes.causewayAudiences
        deliver(report)
    }

    private func reportEnd<Attributes: ReportedAttributes>(of activity: Activity<Attributes>) {
        var report = report(.ended, token: nil, attributesType: String(describing: Attributes.self))
        report.activity = activity.attributes.causewayActivity(device: device)
        deliver(report)
    }

    private func report(_ kind: LiveActivityReport.Kind, token: Data?, attributesType: String) -> LiveActivityReport {
        var report = LiveActivityReport(
            kind: kind,
            device: device,
            attributesType: attributesType,
            token: token.map { $0.map { String(format: "%02x", $0) }.joined() },
            isSandbox: Self.isSandbox,
            frequentUpdates: ActivityAuthorizationInfo().frequentPushesEnabled,
            channels: false
        )
        if #available(iOS 18, *) { report.channels = true }
        return report
    }

    /// Builds that Xcode installs get tokens of the sandbox; TestFlight and the App Store give those of production. A Release build that
    /// Xcode installs counts as production here: give its scheme a compilation condition of your own if you use one.
    private static var isSandbox: Bool {
        #if DEBUG
        true
        #else
        false
        #endif
    }

    private static let attemptsMax = 6

    /// Sends a report, for about a minute, until the server has it. The next launch reports all tokens again.
    private func deliver(_ report: LiveActivityReport) {
        let start = ContinuousClock.now
        Task { [send] in
            var report = report
            for attempt in 0..<Self.attemptsMax {
                report.ageMilliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
                do {
                    return try await send(report)
                } catch {
                    try? await Task.sleep(for: .seconds(1 << attempt))
                }
            }
        }
    }
}
#endif
