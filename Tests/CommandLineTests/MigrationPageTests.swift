import Foundation
import Testbed
import Testing

@Suite("The page for other senders", .ownThread)
struct MigrationPageTests {
    private let page: String

    init() throws {
        page = try String(contentsOf: Repository.url("Documentation/migration.md"), encoding: .utf8)
    }

    /// Returns the cells of a row in the page's table of costs, without the row's title.
    private func row(_ title: String) throws -> [String] {
        let line = try #require(page.split(separator: "\n").first { $0.hasPrefix("| \(title)") }, "\(title)")
        return line.split(separator: "|").dropFirst()
            .map { $0.trimmingCharacters(in: .whitespaces).replacing("*", with: "") }
            .filter { !$0.isEmpty }
    }

    private func numbers(_ title: String) throws -> [Double] {
        try row(title).map { try #require(Double($0.replacing(",", with: "")), "\(title): \($0)") }
    }

    /// Runs `causeway plan` once for each column of the table, with the options that the page names, and returns the
    /// outputs.
    private func runPlans() throws -> [String] {
        try page.replacing("\n", with: " ").matches(of: #/`(?:causeway plan )?(--updates-per-minute [^`]*)`/#)
            .map { match in
                let run = try ProgramRun.run(
                    ProgramRun.process(["plan"] + match.1.split(separator: " ").map(String.init))
                )
                #expect(run.exitCode == 0)
                return run.output
            }
    }

    @Test func `The page's costs are those that the plan prints`() throws {
        let plans = try runPlans()
        #expect(plans.count == 3)
        func cells(_ regex: Regex<AnyRegexOutput>, _ text: ([Substring]) -> String) throws -> [String] {
            try plans.map { plan in
                let match = try #require(try regex.firstMatch(in: plan), "\(plan)")
                return text(match.output.dropFirst().compactMap(\.substring))
            }
        }
        let pods = try Regex(
            #"pods +(\d+) +(\d+) cores and lanes each; ([0-9.]+) cores busy[^\n]*\n +memory a pod +([0-9,]+ MiB)"#
        )
        #expect(
            try row("pods (plan)") == cells(pods) { "\($0[0]) of \($0[1]) core\($0[1] == "1" ? "" : "s"), \($0[3])" }
        )
        #expect(try row("cores busy at the peak (plan)") == cells(pods) { String($0[2]) })
        let redis = try Regex(#"Redis nodes +(\d+) [\s\S]*Redis memory +([0-9,]+ MiB)"#)
        #expect(
            try row("Redis (plan), each with a replica")
                == cells(redis) { "\($0[0]) node\($0[0] == "1" ? "" : "s"), \($0[1])" }
        )
        let kafka = try Regex(#"Kafka writes +([0-9.]+ MB/s)[\s\S]*Kafka keeps +([0-9,]+ GiB)"#)
        #expect(try row("Kafka writes; keeps 4 h (plan)") == cells(kafka) { "\($0[0]); \($0[1])" })
        let demand = try Regex(#"updates a minute +([0-9,]+) [\s\S]*activities in a day +([0-9,]+)\n"#)
        #expect(try row("updates a minute, activities a day") == cells(demand) { "\($0[0]), \($0[1])" })
        // The page's prices a month: 25 USD for a processor, 3 USD for a GiB of memory.
        let podCosts = try cells(pods) { texts in
            let numbers = texts.map { text in Double(text.filter { $0.isNumber || $0 == "." }) ?? 0 }
            return String(Int((numbers[0] * (numbers[1] * 25 + numbers[3] / 1_024 * 3)).rounded()))
        }
        #expect(try row("pods, USD a month") == podCosts)
    }

    @Test func `The page's total costs are the sums of its rows`() throws {
        let parts = try ["pods, USD a month", "Redis |", "Kafka |", "sent to APNs"].map(numbers)
        #expect(
            try numbers("**together, USD a month**")
                == (0..<3).map { column in parts.reduce(0) { sum, costs in sum + costs[column] } }
        )
    }
}
