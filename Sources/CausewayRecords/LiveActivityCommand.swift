import Foundation

/// A command for `causeway.commands`: a start, an update or an end, for an activity, an audience, or the activities on
/// a channel.
///
/// `ContentState` is the app's own type. The content state and a start's attributes are encoded as ActivityKit decodes
/// them. The command's own dates, such as `timestamp`, are written as UNIX seconds.
///
/// You can read a command from a record, change it, and write it. Unknown keys and the digits of unchanged numbers then
/// stay as they were read.
public struct LiveActivityCommand<ContentState: Codable & Sendable>: Sendable {
    /// What the command is for: one activity, an audience, or the activities on a channel.
    public enum Address: Hashable, Sendable {
        case activity(String)
        case audience(String)
        /// A broadcast channel that you manage yourself.
        case channel(String, PushEnvironment)
    }

    /// What the command does to its activities: Apple's `event`.
    public enum Event: Sendable {
        case start(Start)
        case update
        case end
    }

    /// The fields that only a start has.
    public struct Start: Sendable {
        /// The way in which updates reach the new activity. Both ways need iOS 18: for devices with iOS 17, leave
        /// ``Start/updates`` nil.
        public enum Updates: Hashable, Sendable {
            /// The activity gets an update token.
            case token
            /// The activity begins on a broadcast channel.
            case channel(String)
        }

        /// For a start of one activity: the device's id, as in its registration.
        public var device: String?
        /// For a start to an audience: the template of the activities' ids. It contains `{device}`.
        public var activityTemplate: String?
        /// The name of the type that conforms to `ActivityAttributes`.
        public var attributesType: String
        /// The attributes of the new activity, as ActivityKit decodes them.
        public var attributes: JSONValue
        /// How updates reach the new activity; nil: the command does not say it.
        public var updates: Updates?
    }

    /// The app's bundle id.
    public var app: String
    /// What the command is for.
    public var address: Address
    /// Whether the command is a start, an update or an end.
    public var event: Event
    /// The time to which the state belongs. Of two commands, the one with the later time is newer. Fractions of a
    /// second do not count, because Apple's timestamps have whole seconds.
    public var timestamp: Date
    /// The new content state. An end may have nil: the activity then keeps its last state.
    public var contentState: ContentState?
    /// The alert that rings with the state; nil: none.
    public var alert: Alert?
    /// After this time, the system marks the activity as outdated.
    public var staleDate: Date?
    /// When an ended activity leaves the Lock Screen: at once if the date has passed.
    public var dismissalDate: Date?
    /// Of an app's activities, the Dynamic Island shows the one with the highest score.
    public var relevanceScore: Double?
    /// Your own keys beside `aps` in the push.
    public var payload: JSONObject?
    /// An id of your choice, at most 64 bytes. The command's results repeat it.
    public var id: String?
    /// Orders commands whose `timestamp` is in the same second: the command with the highest number is the newest.
    public var sequence: UInt64?
    /// APNs' priority, 5 or 10. Nil: 10 for a start, an end, or an update with an alert; 5 for any other update.
    public var priority: Int?
    /// Causeway does not send the command after this time, and APNs does not store the push longer. The time must not
    /// be 0, which APNs takes for a single attempt.
    public var expiration: Date?
    /// The name of a policy in the worker's configuration; nil: the default policy of the app.
    public var policy: String?
    /// Only for a command to an audience. True: the audience gets a broadcast channel, even if no pattern of the
    /// worker's configuration matches the audience. False or nil: the configuration decides.
    public var requestsChannel: Bool?
    /// Only for a single activity: its update token, or for a start the device's push-to-start token. Causeway uses the
    /// token as if a registration had brought it.
    public var token: (token: PushToken, environment: PushEnvironment)?

    /// The record that the command was read from, for its unknown keys and the digits of its numbers; nil if the
    /// command is new.
    let receivedJSON: JSONValue?

    private init(
        _ app: String,
        _ address: Address,
        _ event: Event,
        _ timestamp: Date,
        _ contentState: ContentState?,
        _ alert: Alert? = nil
    ) {
        self.app = app
        self.address = address
        self.event = event
        self.timestamp = timestamp
        self.contentState = contentState
        self.alert = alert
        receivedJSON = nil
    }
}

extension LiveActivityCommand {
    /// Makes an update. If the user must notice the update, pass an alert.
    public static func update(
        app: String,
        _ address: Address,
        at timestamp: Date = Date(),
        contentState: ContentState,
        alert: Alert? = nil
    ) -> LiveActivityCommand {
        var command = LiveActivityCommand(app, address, .update, timestamp, contentState)
        command.alert = alert
        return command
    }

    /// Makes an end. Without a content state, the activity's last state stays on the screen.
    public static func end(
        app: String,
        _ address: Address,
        at timestamp: Date = Date(),
        contentState: ContentState? = nil,
        dismissalDate: Date? = nil
    ) -> LiveActivityCommand {
        var command = LiveActivityCommand(app, address, .end, timestamp, contentState)
        command.dismissalDate = dismissalDate
        return command
    }

    /// Makes a command that starts an activity on one device.
    ///
    /// - Parameters:
    ///   - activity: the id of the new activity, which you choose.
    ///   - attributesType: the name of the app's type, if it differs from `Attributes`.
    /// - Throws: an error if `attributes` cannot be encoded.
    public static func start<Attributes: Encodable>(
        app: String,
        activity: String,
        device: String,
        at timestamp: Date = Date(),
        attributes: Attributes,
        attributesType: String = String(describing: Attributes.self),
        contentState: ContentState,
        alert: Alert
    ) throws -> LiveActivityCommand {
        let attributes = try JSONValue(encoding: attributes)
        let start = Start(device: device, activityTemplate: nil, attributesType: attributesType, attributes: attributes)
        return LiveActivityCommand(app, .activity(activity), .start(start), timestamp, contentState, alert)
    }

    /// Makes a command that starts an activity on each device of an audience.
    ///
    /// - Parameters:
    ///   - activityTemplate: the template of the activities' ids. Each device's id replaces `{device}` in it.
    ///   - attributesType: the name of the app's type, if it differs from `Attributes`.
    /// - Throws: an error if `attributes` cannot be encoded.
    public static func start<Attributes: Encodable>(
        app: String,
        audience: String,
        activityTemplate: String,
        at timestamp: Date = Date(),
        attributes: Attributes,
        attributesType: String = String(describing: Attributes.self),
        contentState: ContentState,
        alert: Alert
    ) throws -> LiveActivityCommand {
        let attributes = try JSONValue(encoding: attributes)
        let start = Start(
            device: nil,
            activityTemplate: activityTemplate,
            attributesType: attributesType,
            attributes: attributes
        )
        return LiveActivityCommand(app, .audience(audience), .start(start), timestamp, contentState, alert)
    }
}

extension LiveActivityCommand: KafkaRecord {
    public static var defaultTopic: String { "causeway.commands" }

    /// The id of the activity, audience or channel.
    public var key: String {
        switch address {
        case .activity(let name), .audience(let name), .channel(let name, _): name
        }
    }
}
