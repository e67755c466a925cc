import Foundation
import Testbed
import Testing

@testable import CausewayLab

@Suite("causeway-lab fanout", .timeLimit(.minutes(10)))
struct FanoutRunTests {
    /// Sends one command to an audience. With `--overtake-at 50`, a newer command follows when the first one has passed
    /// half (50 %) of the members.
    @Test(arguments: [[], ["--overtake-at", "50"]]) func `Every phone shows the newest state`(options: [String])
        async throws
    {
        try await onOwnThread {
            let directory = try WorkDirectory()
            defer { directory.remove(keeping: false) }
            let file = "\(directory.path)/fanout.json"
            let run = try runProgram(
                try ExampleRun.programs.lab,
                ["fanout", "--members", "2000", "--h2load-pushes", "0", "--beside", "20", "--json", file] + options
            )
            #expect(run.exitCode == 0, "\(run.text)")
            let json = try JSONSerialization.jsonObject(with: Data(TextFile.read(file))) as? JSONObject
            let figures = try #require(json)
            for figure in ["wrong", "reversed", "alertedTwice", "unalerted"] {
                #expect(figures[figure] as? Int == 0, "\(figure): \(run.text)")
            }
            #expect(figures["resultsAddUp"] as? Bool == true)
            let singleFigures = try #require(figures["singleBefore"] as? JSONObject)
            #expect(try #require(singleFigures["commands"] as? Int) > 0)
            #expect(try #require(figures["pushes"] as? Int) <= 2_000 * (options.isEmpty ? 1 : 2))
        }
    }
}
