// The part of ActivityKit that Examples/app uses, as Apple documents it. Linux has no ActivityKit, so the
// examples are compiled with these signatures.
import Foundation

public protocol ActivityAttributes: Codable, Sendable {
    associatedtype ContentState: Codable, Hashable, Sendable
}

public enum ActivityState: Codable, Hashable, Sendable {
    case active, pending, ended, dismissed, stale
}

public struct ActivityContent<State: Codable & Hashable & Sendable>: Sendable {
    public init(state: State, staleDate: Date?, relevanceScore: Double = 0) {}
}

public struct PushType: Sendable {
    public static let token = PushType()
    public static func channel(_ identifier: String) -> PushType { PushType() }
}

public struct Sequence<Element: Sendable>: AsyncSequence, AsyncIteratorProtocol, Sendable {
    public mutating func next() async -> Element? { nil }
    public func makeAsyncIterator() -> Sequence<Element> { self }
}

public final class Activity<Attributes: ActivityAttributes>: Identifiable, Sendable {
    public let id: String
    public let attributes: Attributes
    public var pushToken: Data? { nil }
    public var pushTokenUpdates: Sequence<Data> { Sequence() }
    public var activityStateUpdates: Sequence<ActivityState> { Sequence() }
    public static var activities: [Activity<Attributes>] { [] }
    public static var activityUpdates: Sequence<Activity<Attributes>> { Sequence() }
    public static var pushToStartToken: Data? { nil }
    public static var pushToStartTokenUpdates: Sequence<Data> { Sequence() }

    private init(id: String, attributes: Attributes) {
        self.id = id
        self.attributes = attributes
    }

    public static func request(
        attributes: Attributes,
        content: ActivityContent<Attributes.ContentState>,
        pushType: PushType? = nil
    ) throws -> Activity<Attributes> {
        Activity(id: "", attributes: attributes)
    }
}

public final class ActivityAuthorizationInfo: Sendable {
    public init() {}
    public var frequentPushesEnabled: Bool { false }
    public var frequentPushEnablementUpdates: Sequence<Bool> { Sequence() }
}
