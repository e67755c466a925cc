import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// The season in `Config/examples`, read once for all tests.
enum SeasonData {
    static let directory = Repository.url("Config/examples/season")

    static func file(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: directory.appendingPathComponent(name)))
    }

    static let season = Result {
        try Season(
            matchesFile: file("ipl-2018-matches.csv"),
            ballsFile: file("ipl-2018-deliveries.csv")
        )
    }
}
