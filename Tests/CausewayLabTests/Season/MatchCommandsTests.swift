import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("The season's records", .ownThread)
struct MatchCommandsTests {
    private let match: Match
    private let commands: MatchCommands

    init() throws {
        match = try #require(try SeasonData.season.get().matches.first)
        commands = MatchCommands(match, steps: match.steps())
    }

    private func readRecord(_ template: CommandTemplate) throws -> (key: String, value: [String: Any]) {
        let (key, data) = template.withRecord { (String(decoding: $0, as: UTF8.self), Data($1)) }
        return (key, try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any]))
    }

    @Test func `A ball is an update to one follower`() throws {
        var ball = commands.steps[121]
        ball.setTimestamp(seconds: 1_790_000_123)
        ball.setFollowerNumber(42)
        let (key, value) = try readRecord(ball)
        #expect(key == "1136561-0042")
        #expect(value["activity"] as? String == key)
        #expect(value["device"] == nil)
        #expect(value["sequence"] as? Int == 122)
        let aps = try #require(value["aps"] as? [String: Any])
        #expect(aps["timestamp"] as? Int == 1_790_000_123)
        #expect(aps["event"] as? String == "update")
        let state = try #require(aps["content-state"] as? [String: Any])
        #expect(state["runs"] as? Int == 165 && state["overs"] as? String == "20")
    }

    @Test func `A template can be used again`() throws {
        var ball = commands.steps[0]
        ball.setFollowerNumber(9_999)
        ball.setTimestamp(seconds: 9_999_999_999)
        ball.setFollowerNumber(1)
        ball.setTimestamp(seconds: 1_790_000_000)
        let (key, value) = try readRecord(ball)
        #expect(key == "1136561-0001")
        #expect((value["aps"] as? [String: Any])?["timestamp"] as? Int == 1_790_000_000)
    }

    @Test func `A start has the device and the activity in all places`() throws {
        var start = commands.start
        start.setTimestamp(seconds: 1_790_000_000)
        start.setFollowerNumber(7)
        let (key, value) = try readRecord(start)
        #expect(key == "1136561-0007")
        #expect(value["device"] as? String == "phone-1136561-0007")
        let aps = try #require(value["aps"] as? [String: Any])
        #expect(aps["event"] as? String == "start" && aps["attributes-type"] as? String == "MatchAttributes")
        #expect((aps["attributes"] as? [String: Any])?["activity"] as? String == key)
        let alert = try #require(aps["alert"] as? [String: Any])
        #expect(alert["title"] as? String == "Mumbai Indians v Chennai Super Kings")
        #expect(alert["sound"] as? String == "default")
    }

    @Test func `Commands may have ids`() throws {
        let commandsWithIdentifiers = MatchCommands(match, steps: match.steps(), hasIdentifiers: true)
        var (ball, start) = (commandsWithIdentifiers.steps[121], commandsWithIdentifiers.start)
        for follower in [42, 9_999] {
            ball.setFollowerNumber(follower)
            start.setFollowerNumber(follower)
            let digits = follower == 42 ? "0042" : "9999"
            let (key, value) = try readRecord(ball)
            #expect(value["id"] as? String == "122/1136561-\(digits)" && value["activity"] as? String == key)
            #expect(try readRecord(start).value["id"] as? String == "0/1136561-\(digits)")
        }
        #expect(try readRecord(commands.steps[0]).value["id"] == nil)
    }

    @Test func `An audience gets one record for all followers`() throws {
        let commands = MatchCommands(toAudienceOf: match, steps: match.steps())
        var (ball, start) = (commands.steps[121], commands.start)
        ball.setTimestamp(seconds: 1_790_000_123)
        ball.setFollowerNumber(42)
        let (key, value) = try readRecord(ball)
        #expect(key == "match-1136561" && value["audience"] as? String == key && value["activity"] == nil)
        #expect(value["sequence"] as? Int == 122)
        let update = try #require(value["aps"] as? [String: Any])
        #expect(update["timestamp"] as? Int == 1_790_000_123 && update["event"] as? String == "update")
        start.setTimestamp(seconds: 1_790_000_000)
        let startObject = try readRecord(start).value
        #expect(startObject["audience"] as? String == key && startObject["device"] == nil)
        #expect(startObject["activity"] as? String == "{device}-MatchAttributes-0")
        let attributes = try #require((startObject["aps"] as? [String: Any])?["attributes"] as? [String: Any])
        #expect(attributes["activity"] == nil && attributes["match"] as? String == "1136561")
    }

    @Test func `The last step ends the activity`() throws {
        let events = try commands.steps.map { try readRecord($0).value["aps"] as? [String: Any] }
            .map { $0?["event"] as? String }
        #expect(events.dropLast().allSatisfy { $0 == "update" })
        #expect(events.last == "end")
        #expect(commands.finalState.result == "Chennai Super Kings won by 1 wicket")
    }

    @Test func `Bodies are far below Apple's four kilobytes`() throws {
        for match in try SeasonData.season.get().matches.prefix(6) {
            for template in MatchCommands(match, steps: match.steps()).steps {
                #expect(template.withRecord { $1.count } < 1_500)
            }
        }
    }
}
