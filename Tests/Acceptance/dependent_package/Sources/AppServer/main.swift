import ActivityShapes
import CausewayRecords
import Foundation

struct MatchAttributes: Codable, Sendable {
    struct ContentState: Codable, Sendable {
        var home: Int
        var away: Int
        var kickOff: Date
    }

    var match: String
}

typealias MatchCommand = LiveActivityCommand<MatchAttributes.ContentState>

let now = Date(timeIntervalSince1970: 1_790_000_000)
let state = MatchAttributes.ContentState(home: 1, away: 0, kickOff: now.addingTimeInterval(-1_020))
let alert = Alert(title: "Goal for Rovers", body: "1:0", sound: "default")
let app = "com.example.match"

var goal = MatchCommand.update(app: app, .activity("final-phone-21"), at: now, contentState: state, alert: alert)
goal.id = "goal-1-0"
goal.staleDate = now.addingTimeInterval(600)

let registration = Registration(
    app: app,
    environment: .production,
    registeredAt: now,
    token: PushToken(digits: "5c1e0a77b2d4f839"),
    .activity(.init(id: "final-phone-21", frequentUpdates: true))
)
let start = try MatchCommand.start(
    app: app,
    audience: "final",
    activityTemplate: "final-{device}",
    at: now,
    attributes: MatchAttributes(match: "final"),
    contentState: state,
    alert: alert
)
let end = MatchCommand.end(app: app, .audience("final"), at: now, contentState: state, dismissalDate: now)

for command in [goal, start, end] { try command.validate(now: now) }
try registration.validate()

/// Prints a record as the other examples do: topic, key and value.
func printRecord<Record: KafkaRecord>(_ record: Record) throws {
    print(Record.defaultTopic, record.key, String(decoding: try record.value(), as: UTF8.self), separator: "\t")
}

/// The shapes of the types above, as the app's unit test would write them.
let shapes = ActivityShapes.text(app: app, [try .activity(attributes: MatchAttributes(match: "final"), state: state)])

try printRecord(registration)
try printRecord(goal)
try printRecord(start)
try printRecord(end)
print("causeway.shapes", app, shapes.split(separator: "\n").joined(separator: " "), separator: "\t")
