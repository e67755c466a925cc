import Foundation

/// A report of the app to its server: about one token, or that an activity is over. The same report may come several
/// times: after a launch, after a change of audiences or settings, or after a failed attempt.
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
    /// An id of this installation of the app: the device in commands.
    var device: String
    /// The activity's id in commands. Nil for a device.
    var activity: String?
    var audiences: [String] = []
    var attributesType: String
    /// The token in hexadecimal digits. Nil for an activity that is over.
    var token: String?
    /// The age of the report in milliseconds. The server subtracts it from its own clock, because the phone's
    /// clock may be wrong.
    var ageMilliseconds: Int = 0
    /// Whether the token is from Apple's sandbox.
    var isSandbox: Bool
    var frequentUpdates: Bool
    /// Whether activities may start on a broadcast channel, which needs iOS 18 or newer.
    var channels: Bool
}

#if canImport(ActivityKit)
import ActivityKit

/// An app's type of activity, with the names that Causeway needs.
protocol ReportedAttributes: ActivityAttributes {
    /// The activity's id in commands. The server must be able to compute the same id, for example from
    /// "final-" and the device.
    func causewayActivity(device: String) -> String
    /// The audiences that the activity belongs to: at most 8, because a registration names no more.
    var causewayAudiences: [String] { get }
}

/// Reports all tokens of Live Activities to the app's server.
///
/// Call ``observe(_:)`` for each type in `application(_:didFinishLaunchingWithOptions:)`. When a push has
/// started an activity, the system starts the app in the background for a few seconds. An observer that
/// begins later misses the activity's token.
@available(iOS 17.2, *)
@MainActor
final class LiveActivityTokens {
    private let send: @Sendable (LiveActivityReport) async throws -> Void
    private let device: String
    private var observedActivities: Set<String> = []
    private var deviceTokens: [String: Data] = [:]

    /// The audiences whose starts this device gets, at most 8: for example the teams that the person follows.
    /// Each change is reported.
    var deviceAudiences: [String] = [] {
        didSet {
            guard deviceAudiences != oldValue else { return }
            for (type, token) in deviceTokens { report(deviceToken: token, attributesType: type) }
        }
    }

    /// - Parameters:
    ///   - device: an id of this installation. It stays the same at every launch, and changes when the app is
    ///     deleted and installed again.
    ///   - send: sends a report to the app's server. It throws if the server has not confirmed it.
    init(device: String, send: @escaping @Sendable (LiveActivityReport) async throws -> Void) {
        self.device = device
        self.send = send
    }

    /// Begins to report the tokens of a type of activity, also of activities that already run.
    func observe<Attributes: ReportedAttributes>(_ type: Attributes.Type) {
        // The asynchronous sequences report only changes, and the present token may have come at an earlier
        // launch.
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
            // The person has switched frequent updates on or off, so all activities are reported with the new
            // value.
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
            // An activity gets its first token only some time after its start, and the token can change later.
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

    /// Whether tokens are for Apple's sandbox, as in builds that Xcode installs. TestFlight and App Store
    /// builds get production tokens. A Release build that Xcode installs also gets sandbox tokens, but counts
    /// as production here: set a compilation condition of your own for it.
    private static var isSandbox: Bool {
        #if DEBUG
        true
        #else
        false
        #endif
    }

    /// How long to wait after a failed attempt. The attempt after the last pause begins about a minute after the first.
    private static let pauseSeconds = [1, 2, 4, 8, 16, 32]

    /// Sends a report until the server has confirmed it, or until the attempt after the last pause has failed too. The
    /// next launch of the app reports all tokens again.
    private func deliver(_ report: LiveActivityReport) {
        let start = ContinuousClock.now
        Task { [send] in
            var report = report
            for pauseSeconds in [0] + Self.pauseSeconds {
                try? await Task.sleep(for: .seconds(pauseSeconds))
                report.ageMilliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
                if (try? await send(report)) != nil { return }
            }
        }
    }
}
#endif
