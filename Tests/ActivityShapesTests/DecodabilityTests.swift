import ActivityShapes
import Foundation
import LiveActivity
import Numbers
import Testbed
import Testing

@testable import APNsSimulator

/// Three judges say whether a phone could decode a state: Foundation's `JSONDecoder`, the worker's check, and the
/// simulator. `JSONDecoder` decodes the Swift types themselves. The check and the simulator read the shapes that
/// `ActivityShapes` wrote.
@Suite("Shapes beside the types that they describe", .ownThread)
struct DecodabilityTests {
    private static let app = "com.example.ride"

    private static func shapesText() throws -> String {
        try ActivityShapes.text(
            app: app,
            [.activity(attributes: RideAttributes(), state: RideState(), name: "RideAttributes")]
        )
    }

    static func makeContract() throws -> UnmanagedContract {
        let bytes = Array(try shapesText().utf8)
        return UnmanagedContract(copying: try bytes.withUnsafeBytes { try Contract(shapes: $0, ofApp: app) })
    }

    private static func simulatedShape() throws -> Shape {
        let object = try JSONSerialization.jsonObject(with: Data(try shapesText().utf8)) as? [String: Any]
        let type = (object?["attributesTypes"] as? [[String: Any]])?.first
        let shape = try JSONSerialization.data(withJSONObject: try #require(type?["contentState"]))
        return try Shape(json: String(decoding: shape, as: UTF8.self))
    }

    static func makeRecord(_ state: String) -> [UInt8] {
        Array(
            #"{"app":"\#(app)","activity":"a","aps":{"event":"update","timestamp":1790000000,"content-state":\#(state)}}"#
                .utf8
        )
    }

    private static func findMismatch(_ state: String, _ contract: UnmanagedContract) throws -> String? {
        let record = Self.makeRecord(state)
        return try record.withUnsafeBytes { bytes in
            let command = try Command.decode(bytes)
            do throws(ContractMismatch) {
                try contract.check(command, in: bytes)
                return nil
            } catch {
                return contract.message(error, command, in: bytes)
            }
        }
    }

    private static func simulatorDecodes(_ state: String, _ shape: Shape) throws -> Bool {
        try Array(state.utf8)
            .withUnsafeBytes { bytes in
                var tape = JSONTape()
                try tape.read(bytes)
                return shape.decode(tape, at: 0, nowMilliseconds: 1_790_000_000_000).mismatch == nil
            }
    }

    /// Whether the state has a number that Foundation's `Decimal` cannot hold. The worker's check accepts such a
    /// number.
    private static func isBeyondDecimal(_ state: String) -> Bool {
        struct Price: Decodable { var price: Foundation.Decimal? }
        struct Number: Decodable { var price: Double? }
        let data = Data(state.utf8)
        return (try? JSONDecoder().decode(Price.self, from: data)) == nil
            && (try? JSONDecoder().decode(Number.self, from: data)) != nil
    }

    @Test(arguments: 1...4) func `JSONDecoder, the worker and the simulator judge changed states alike`(seed: UInt64)
        throws
    {
        let contract = try Self.makeContract()
        defer { contract.deallocate() }
        let shape = try Self.simulatedShape()
        let example = try JSONSerialization.jsonObject(with: JSONEncoder().encode(RideState()))
        var random = SplitMix64(seed: seed)
        var (decodedCount, refusedCount) = (0, 0)
        for _ in 0..<2_500 {
            var tree = JSONTree(example)
            for _ in 0..<random.number(1...3) { tree = tree.mutated(&random) }
            guard case .object = tree, case let state = tree.text else { continue }
            let isDecoded = (try? JSONDecoder().decode(RideState.self, from: Data(state.utf8))) != nil
            let mismatch = try Self.findMismatch(state, contract)
            if isDecoded { decodedCount += 1 } else { refusedCount += 1 }
            if isDecoded != (mismatch == nil), !Self.isKnownDifference(state, isDecoded, mismatch) {
                Issue.record("decoded: \(isDecoded), worker: \(mismatch ?? "fits"): \(state)")
            }
            let isDecodedBySimulator = try Self.simulatorDecodes(state, shape)
            if isDecoded != isDecodedBySimulator, !Self.isKnownDifference(state, isDecoded, mismatch) {
                Issue.record("decoded: \(isDecoded), simulator: \(isDecodedBySimulator): \(state)")
            }
        }
        // If few states are accepted or few are refused, the comparison tests nothing.
        #expect(decodedCount > 400 && refusedCount > 400, "\(decodedCount) decoded, \(refusedCount) refused")
    }

    /// Whether a known difference explains that Foundation refuses a state that the shapes accept:
    /// - The shape of `Badge` and `Amount` is `any`, because a shape describes neither an enum with associated values
    ///   nor a type's own decoder.
    /// - A shape accepts every text that is not empty as a URL, but Foundation refuses some of these texts.
    /// - A shape accepts a number that `Decimal` cannot hold.
    private static func isKnownDifference(_ state: String, _ isDecoded: Bool, _ mismatch: String?) -> Bool {
        struct CustomFields: Decodable {
            var badge: RideState.Badge
            var amount: RideState.Amount
            var link: URL?
        }
        guard !isDecoded, mismatch == nil else { return false }
        return (try? JSONDecoder().decode(CustomFields.self, from: Data(state.utf8))) == nil || isBeyondDecimal(state)
    }

    @Test(arguments: [
        (#""driver":"Maria""#, #""driver":7"#, "aps.content-state.driver: 7 must be string (at byte "),
        (#""minutes":7"#, #""minutes":"7""#, #"aps.content-state.minutes: "7" must be int (at byte "#),
        (#""minutes":7"#, #""minutes":1.5"#, "aps.content-state.minutes: 1.5 does not fit int (at byte "),
        (#""minutes":7,"#, "", "aps.content-state.minutes: missing, must be int (at byte "),
        (
            #""status":"enRoute""#, #""status":"lost""#,
            #"aps.content-state.status: "lost" must be one of "enRoute", "arrived", "completed" (at byte "#
        ),
        (
            #""eta":[1,2]"#, #""eta":{"lowerBound":1,"upperBound":2}"#,
            "aps.content-state.eta: an object must be dateRange, an array of two numbers of seconds since 2001 (at byte "
        ),
        (
            #""eta":[1,2]"#, #""eta":[2,1]"#,
            "aps.content-state.eta: an array must be dateRange, an array of two numbers of seconds since 2001, and its bounds are not in order"
        ),
        (#""names":["a"]"#, #""names":["a",null]"#, "aps.content-state.place.names[1]: null must be string (at byte "),
        (#""home":2"#, #""home":true"#, "aps.content-state.scores.home: true must be int (at byte "),
        (
            #""minutes":7"#, #""minutes":"\#(String(repeating: "0f", count: 8))""#,
            "aps.content-state.minutes: a string of 18 bytes must be int (at byte "
        ),
        (
            #""at":811693100"#, #""at":"2026-01-01T00:00:00Z""#,
            #"aps.content-state.at: "2026-01-01T00:00:00Z" must be date, a number of seconds since 2001 (at byte "#
        ),
    ])
    func `The message about a mismatch has the path, the value and the expected type`(
        _ validPart: String,
        _ wrongPart: String,
        _ message: String
    ) throws {
        let contract = try Self.makeContract()
        defer { contract.deallocate() }
        let encoder = JSONEncoder()
        // Without sorted keys, the order of the keys differs between processes. Then perhaps the test does not find a
        // text that contains two keys.
        encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
        let state = String(decoding: try encoder.encode(RideState()), as: UTF8.self)
        #expect(try Self.findMismatch(state, contract) == nil)
        #expect(state.contains(validPart))
        let foundMessage = try Self.findMismatch(state.replacing(validPart, with: wrongPart), contract)
        #expect(foundMessage?.hasPrefix(message) == true, "\(foundMessage ?? "fits")")
    }

    /// Programs in other languages may write the whole number 1 as `1.0`, in a state and in the file of shapes.
    @Test(arguments: [
        ("1", true), ("1.0", true), ("1e0", true), ("-3", true), ("4", true), ("1.5", false), ("0", false),
        ("1e400", false),
    ])
    func `The worker and the simulator compare an enum's numbers by value`(_ value: String, isCase: Bool) throws {
        let shape = #"{"level":{"enum":[1.0,-30e-1,4]}}"#
        let file = Array(
            #"{"app":"\#(Self.app)","attributesTypes":[{"name":"A","attributes":{},"contentState":\#(shape)}]}"#.utf8
        )
        let contract = UnmanagedContract(
            copying: try file.withUnsafeBytes { try Contract(shapes: $0, ofApp: Self.app) }
        )
        defer { contract.deallocate() }
        let state = #"{"level":\#(value)}"#
        let mismatch = try Self.findMismatch(state, contract)
        #expect((mismatch == nil) == isCase, "\(mismatch ?? "fits")")
        let isDecodedBySimulator = try Self.simulatorDecodes(state, try Shape(json: shape))
        #expect(isDecodedBySimulator == isCase)
    }

    /// Foundation's decoder uses the first value of a repeated key, so the worker's check ignores any later value.
    @Test func `If a dictionary repeats a key, its later values are ignored`() throws {
        let contract = try Self.makeContract()
        defer { contract.deallocate() }
        let state = String(decoding: try JSONEncoder().encode(RideState()), as: UTF8.self)
        let scores = try #require(state.firstMatch(of: /"scores":\{[^}]*\}/)).output
        func findMismatch(_ keys: [String]) throws -> String? {
            let validMembers = keys.map { "\"\($0)\":1" }
            let repeatedMembers = keys.map { "\"\($0)\":[]" }
            let changed = state.replacing(
                scores,
                with: "\"scores\":{\((validMembers + repeatedMembers).joined(separator: ","))}"
            )
            let isDecoded = (try? JSONDecoder().decode(RideState.self, from: Data(changed.utf8))) != nil
            let mismatch = try Self.findMismatch(changed, contract)
            #expect(isDecoded == (mismatch == nil))
            return mismatch
        }
        let keys = (0..<200).map(String.init)
        #expect(try findMismatch(keys) == nil)
        // The key "0", written with an escape.
        let escapedZero = #"\u0030"#
        #expect(
            try Self.findMismatch(state.replacing(scores, with: #""scores":{"0":1,"\#(escapedZero)":[]}"#), contract)
                == nil
        )
        let stateWithWrongNewKey = state.replacing(scores, with: #""scores":{"0":1,"0":[],"1":1,"1":[],"0":[],"2":[]}"#)
        #expect(
            try Self.findMismatch(stateWithWrongNewKey, contract)?
                .hasPrefix("aps.content-state.scores.2: an array must be int") == true
        )
    }
}
