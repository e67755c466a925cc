import Foundation
import Testing

@testable import causeway

@Suite("A worker that is told to stop", .timeLimit(.minutes(5)))
struct ShutdownTests {
    /// The whole of a match at once, and SIGTERM while it is being worked on: the worker finishes what it has begun, commits
    /// it and exits with 0; the next one carries on behind it, and no command is done twice.
    @Test func drainsUnderLoadAndLosesNothing() async throws {
        try await onOwnThread {
            let season = ExampleFiles("season")
            let run = try ExampleRun([("cricket", MatchRecords.app, season.path("shapes.json"))])
            defer { run.close() }
            let matches = Array(try SeasonFiles(directory: season.directory.path).season.matches.prefix(1))
            var feed = SeasonFeed(matches: matches, followers: 20, durationMilliseconds: 1)
            let phones = SimulatedPhones(client: ControlClient(port: run.stage.simulator.controlPort))
            let wire = try CommandWire(bootstrapServers: run.stage.bootstrapServers)
            defer { wire.close() }
            let reader = try ResultsReader(bootstrapServers: run.stage.bootstrapServers)
            defer { reader.close() }
            try phones.make(for: feed)
            try run.relay(until: 30)
            try feed.start(to: wire.commands, of: wire.producer)
            try run.relay(until: 40)

            while !feed.isOver {
                _ = try feed.advance(to: .max, limit: 1_000, topic: wire.commands, producer: wire.producer)
                wire.takeReports()
            }
            let deadline = Date(timeIntervalSinceNow: 60)
            func read(until isDone: () -> Bool) throws {
                while !isDone() {
                    guard Date() < deadline else {
                        throw Timeout(what: "\(feed.commands) results, there are \(reader.tally.commands)")
                    }
                    wire.takeReports()
                    try run.stage.check()
                    if try !reader.drain(limit: 1_000) { usleep(1_000) }
                }
            }
            try read { reader.tally.commands > 0 }
            try run.stage.stopWorker(graceMilliseconds: 30_000)
            try run.stage.startWorker()
            try read { reader.tally.commands == feed.commands }
            #expect(reader.tally.repeated == 0)
            // What was held for want of a token is sent when every command has its result already.
            while try phones.compare(with: feed).matching < feed.phones, Date() < deadline { try run.stage.check() }
            #expect(try phones.compare(with: feed).matching == feed.phones)
        }
    }
}
