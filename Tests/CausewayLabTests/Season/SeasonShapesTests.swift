import LiveActivity
import Testbed
import Testing

@testable import CausewayLab
@testable import Delivery

/// Counts the states of a real season that need the full check against the app's shapes.
@Suite("The season's states and their shapes", .ownThread)
struct SeasonShapesTests {
    /// Most states have the template (the same keys in the same order) of a recent state. For these, the decoder checks
    /// only the changed values. The others need the full check ("walk"), which costs most; `make bench-check` counts
    /// its instructions.
    @Test func `Most states of a season match a template, and few need the full check`() throws {
        let season = try SeasonData.season.get()
        let shapes = try SeasonData.file("shapes.json")
        let contract = try shapes.withUnsafeBytes { try Contract(shapes: $0, ofApp: MatchCommands.app) }
        var app = ReloadableSettings.App()
        app.contract = ContractRule(contract: contract, rejectsMismatches: true)
        var contracts = LaneContracts([app], salt: 1)
        var matchedCount = 0
        let records = season.matches.map { MatchCommands($0, steps: $0.steps()) }
        let events = Timeline(season.matches, durationMilliseconds: 60_000).events
        for (index, event) in events.enumerated() {
            var template = records[event.matchIndex].steps[event.stepIndex]
            template.setFollowerNumber(1)
            template.setTimestamp(seconds: 1_790_000_000)
            template.withRecord { _, value in
                var apsCache = ApsCache()
                guard
                    let command = try? Command.decodeIgnoringBodyLimit(
                        value,
                        recalling: &apsCache,
                        &contracts.templates
                    )
                else {
                    Issue.record("record \(index) cannot be decoded")
                    return
                }
                if contracts.templates.hasMatched(command, ofApp: 0) { matchedCount += 1 }
                #expect(
                    contracts.findMismatch(of: command, 0, apsDictionaryNumber: UInt64(index + 1), in: value) == nil
                )
            }
        }
        #expect(events.count > 14_000)
        #expect(matchedCount > events.count * 9 / 10)
        #expect(
            contracts.comparedStateCount <= UInt64(events.count / 100),
            "\(matchedCount) read by the decoder, \(contracts.comparedStateCount) walked"
        )
    }
}
