#if canImport(ActivityKit)
import ActivityKit
import Foundation

#if canImport(FoundationNetworking)
// Linux has URLSession in a separate module.
import FoundationNetworking
#endif

/// An example app's type of activity, and how the app uses ``LiveActivityTokens``.
struct MatchAttributes: ReportedAttributes {
    struct ContentState: Codable, Hashable {
        var home: Int
        var away: Int
        var kickOff: Date
    }

    var match: String

    func causewayActivity(device: String) -> String { "\(match)-\(device)" }
    var causewayAudiences: [String] { [match] }
}

@available(iOS 17.2, *)
@MainActor
enum MatchActivities {
    nonisolated private static let endpoint = URL(string: "https://example.com/live-activities")

    /// Call this first in `application(_:didFinishLaunchingWithOptions:)`.
    static func begin(device: String, session: URLSession = .shared) -> LiveActivityTokens {
        let tokens = LiveActivityTokens(device: device) { report in
            guard let endpoint else { return }
            var request = URLRequest(url: endpoint)
            request.httpMethod = "POST"
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = try JSONEncoder().encode(report)
            let (_, response) = try await session.data(for: request)
            guard (response as? HTTPURLResponse)?.statusCode == 204 else { throw URLError(.badServerResponse) }
        }
        tokens.observe(MatchAttributes.self)
        return tokens
    }

    /// Starts an activity from the app, with a token of its own or on the audience's channel.
    static func follow(_ match: String, state: MatchAttributes.ContentState, channel: String?) throws {
        let attributes = MatchAttributes(match: match)
        let content = ActivityContent(state: state, staleDate: nil)
        if #available(iOS 18, *), let channel {
            _ = try Activity.request(attributes: attributes, content: content, pushType: .channel(channel))
        } else {
            _ = try Activity.request(attributes: attributes, content: content, pushType: .token)
        }
    }
}
#endif
