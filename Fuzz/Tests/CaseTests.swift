import Foundation
import Testbed
import Testing

/// Runs the fuzz targets on the inputs in `Cases`: the fuzzer's seeds and the inputs that have broken a rule.
/// There is a folder for each target.
@Suite(.ownThread) struct CaseTests {
    struct Case: CustomTestStringConvertible, Sendable {
        var target: FuzzTarget
        var file: URL

        var testDescription: String { "\(target.rawValue)/\(file.lastPathComponent)" }
    }

    private static let folder = Repository.url("Fuzz/Cases")

    static let cases = FuzzTarget.allCases.flatMap { target in
        let files = try? FileManager.default.contentsOfDirectory(
            at: folder.appendingPathComponent(target.rawValue),
            includingPropertiesForKeys: nil
        )
        return (files ?? []).map { Case(target: target, file: $0) }
    }

    @Test(arguments: cases)
    func `An input of a case keeps the rule of its target`(_ fuzzCase: Case) throws {
        let violation = try Data(contentsOf: fuzzCase.file).withUnsafeBytes { fuzzCase.target.violation($0) }
        #expect(violation == nil)
    }

    /// The targets `commands` and `registrations` are left out. Their folders may be empty, because their seeds
    /// are in the corpus of `LiveActivityTests`.
    @Test(arguments: [FuzzTarget.frames, .headers, .responses, .replies])
    func `Cases are there`(_ target: FuzzTarget) {
        #expect(Self.cases.contains { $0.target == target })
    }
}
