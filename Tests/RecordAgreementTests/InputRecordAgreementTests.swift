import Delivery
import Foundation
import LiveActivity
import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import CausewayCommandLine
@testable import RecordReference
@testable import causeway

/// The parts of an accepted record that the library for app servers (`CausewayRecords`) does not keep.
enum ServerLibraryDifference: CaseIterable {
    /// If an object in the app's content repeats a key, the library keeps only the first value of the key.
    case repeatedKey
}

/// Records that the worker refuses for a reason that the library cannot know.
enum ValidationDifference: CaseIterable {
    /// The app or the policy is not configured. Only the worker's configuration has their names.
    case names
}

/// Compares the worker's core, `causeway check`, the schemas and the library for app servers (`CausewayRecords`):
/// - Worker and check accept the same records.
/// - The schema accepts the same records, of those that Foundation can read. It accepts further records only for a
///   reason in `RuleBeyondSchema`, or because it does not know the configured names of apps and policies.
/// - The library reads what the worker accepts, and writes it with the same content. The exceptions are
///   `ServerLibraryDifference`.
/// - The library refuses to send what the worker refuses, and sends all other records that it can read. The exceptions
///   are `ValidationDifference`.
@Suite("The readers of commands and registrations agree", .ownThread)
struct InputRecordAgreementTests {
    private struct Counts: CustomStringConvertible {
        var acceptedByWorkerCount = 0
        var acceptedByCheckCount = 0
        var acceptedBySchemaCount = 0
        var acceptedByServerLibraryCount = 0
        var schemaDifferences: [String: Int] = [:]
        var serverLibraryDifferences: [String: Int] = [:]
        /// The number of records that the library can read but refuses to send.
        var refusedByServerLibraryCount = 0

        var description: String {
            "accepted by worker \(acceptedByWorkerCount), check \(acceptedByCheckCount), schema \(acceptedBySchemaCount), library \(acceptedByServerLibraryCount), not sent by it \(refusedByServerLibraryCount); "
                + "\(schemaDifferences.sorted { $0.key < $1.key }) \(serverLibraryDifferences.sorted { $0.key < $1.key })"
        }
    }

    private static let mutationCount = 10_000

    private let recordCheck = RecordCheck(
        configuredNames: .init(
            policyNamesByApp: [WorkerCore.app: "default"],
            droppedFieldsByPolicy: ["default": .init([]), WorkerCore.policy: .init([])]
        ),
        wallSeconds: { WorkerCore.now.wallSeconds }
    )

    private static let commands =
        ([
            RecordText.update, .start, .end, .toAudience, .startOfAudience, .toChannel,
            .toAudience.with("channel", "true"), .start.with("aps.input-push-token", "1"),
            .start.with("aps.input-push-channel", #""Y2g=""#), .update.with("policy", "\"\(WorkerCore.policy)\""),
            .start.with("aps.alert.title", #"{"loc-key":"GOAL","loc-args":["a","b"]}"#),
            .update.with("payload", #"{"a":[1,{"b":null}]}"#),
            .update.with("aps.new", #"{"a":[1.0,-0,1E+2,123456789012345678901234567890,0.10]}"#)
                .with("aps.alert.new", "[]").with("aps.alert.body", #"{"loc-key":"k","loc-args":[],"new":{}}"#),
            .end.with("aps.dismissal-date", "1790003600.75").with("aps.stale-date", "17900036e2"),
            .update.with("aps.new", #"[1,{"a":null}]"#).with("activity", #""\u00e9\"é""#),
        ] as [RecordText])
        .map { Array($0.text.utf8) }

    @Test func `10,000 mutated commands get the same verdict from all readers`() throws {
        let counts = try compare(.command, JSONMutator(random: SplitMix64(seed: 21), originals: Self.commands))
        #expect(
            counts.acceptedByWorkerCount > 1_000 && counts.acceptedByServerLibraryCount > 900
                && counts.acceptedBySchemaCount < Self.mutationCount - 1_000,
            "\(counts)"
        )
        #expect(counts.refusedByServerLibraryCount > 100, "\(counts)")
    }

    /// The library also writes received fields for which it has no property. So a test that reads and writes commands
    /// does not find a field without a property.
    @Test func `The library writes each field of a command from its own properties`() throws {
        let localizedBody = RecordText.update.with("aps.alert.body", #"{"loc-key":"k","loc-args":["a"]}"#)
        let commands = Self.commands + [Array(localizedBody.text.utf8)]
        let writtenPaths = try commands.reduce(into: Set<String>()) { paths, command in
            let value = try #require(FoundationValue(ServerLibrary.writeOwnFields(Data(command))))
            paths.formUnion(Self.paths(value))
        }
        let describedPaths = Set(RecordFormat.command.variants.flatMap { $0.shape.fieldPaths() }.map(\.path))
        #expect(describedPaths.subtracting(writtenPaths).isEmpty)
    }

    /// Returns the paths of all keys in a JSON object, joined with dots.
    private static func paths(_ value: FoundationValue, _ prefix: String = "") -> [String] {
        (value.object ?? [:]).flatMap { key, value in [prefix + key] + paths(value, "\(prefix)\(key).") }
    }

    @Test func `10,000 mutated registrations get the same verdict from all readers`() throws {
        let seeds =
            ([
                RecordText.registration, .registration.with("shows", "1790000000"), .pushToStart,
                .pushToStart.with("channels", "true").with("audiences", #"["a","é"]"#),
            ] as [RecordText])
            .map { Array($0.text.utf8) }
        let counts = try compare(.registration, JSONMutator(random: SplitMix64(seed: 22), originals: seeds))
        #expect(
            counts.acceptedByWorkerCount > 1_000 && counts.acceptedByServerLibraryCount > 900
                && counts.acceptedBySchemaCount < Self.mutationCount - 1_000,
            "\(counts)"
        )
        #expect(counts.refusedByServerLibraryCount > 100, "\(counts)")
    }

    private func compare(_ kind: RecordCheck.Kind, _ mutator: JSONMutator) throws -> Counts {
        let format = kind == .command ? RecordFormat.command : .registration
        let schema = try SchemaValidator(format.schema)
        var (mutator, counts) = (mutator, Counts())
        for _ in 0..<Self.mutationCount {
            let text = mutator.next()
            let refusal = WorkerCore.refusal(of: text, on: kind.topic)
            let faults = recordCheck.faults(of: InputRecord(bytes: text, lineNumber: 1), kind: kind)
            #expect((refusal == nil) == faults.isEmpty, "\(utf8Text(text)): \(refusal ?? "taken"), \(faults)")
            if refusal == nil { counts.acceptedByWorkerCount += 1 }
            if faults.isEmpty { counts.acceptedByCheckCount += 1 }
            let isValid = try FoundationValue(text).map { try schema.accepts($0) }
            if isValid == true { counts.acceptedBySchemaCount += 1 }
            compareSchema(isValid, refusal, text, kind, &counts)
            if refusal == nil { compareServerLibrary(text, kind, &counts) }
            compareServerLibraryValidation(text, kind, &counts)
        }
        return counts
    }

    private func compareSchema(
        _ isValid: Bool?,
        _ refusal: String?,
        _ text: [UInt8],
        _ kind: RecordCheck.Kind,
        _ counts: inout Counts
    ) {
        switch (refusal, isValid) {
        case (nil, true), (_?, false), (_?, nil): return
        case (nil, nil) where FoundationDeviation.hasNumberBeyondDouble(text):
            counts.schemaDifferences["numberBeyondDouble", default: 0] += 1
        case (let refusal?, true):
            guard let difference = schemaDifference(refusal, text, kind) else {
                Issue.record("the schema accepts \(utf8Text(text)): \(refusal)")
                return
            }
            counts.schemaDifferences[difference, default: 0] += 1
        default: Issue.record("the schema refuses \(utf8Text(text))")
        }
    }

    /// Returns why the schema accepts what the worker refuses; nil if no known reason explains it.
    private func schemaDifference(_ refusal: String, _ text: [UInt8], _ kind: RecordCheck.Kind) -> String? {
        if let fault = decodingFault(text, kind) {
            if let knownDifference = RuleBeyondSchema.explaining(fault, text) { return "\(knownDifference)" }
            return fault.code == .timestampInFuture ? "\(RuleBeyondSchema.timestampAheadOfClock)" : nil
        }
        // Only the configuration has the names of apps and policies.
        return refusal.hasPrefix("unknownApp") || refusal.hasPrefix("unknownPolicy")
            || refusal.hasSuffix("is not configured") ? "names" : nil
    }

    /// Returns the decoder's fault in a record, or else the fault of a timestamp in the future.
    private func decodingFault(_ text: [UInt8], _ kind: RecordCheck.Kind) -> Fault? {
        let record = Record(text)
        do throws(Fault) {
            switch kind {
            case .command: try record.command().checkTimestamp(nowSeconds: WorkerCore.now.wallSeconds)
            case .registration: _ = try record.registration()
            }
            return nil
        } catch {
            return error
        }
    }

    private func compareServerLibrary(_ text: [UInt8], _ kind: RecordCheck.Kind, _ counts: inout Counts) {
        do {
            let rewritten = Array(try ServerLibrary.rewrite(Data(text), kind))
            if let refusal = WorkerCore.refusal(of: rewritten, on: kind.topic) {
                Issue.record("\(utf8Text(text)) becomes \(utf8Text(rewritten)): \(refusal)")
                return
            }
            let content = RecordContent(text)
            if content.hasRepeatedKey {
                counts.serverLibraryDifferences["\(ServerLibraryDifference.repeatedKey)", default: 0] += 1
            } else {
                let isSame = RecordContent(rewritten) == content
                #expect(isSame, "\(utf8Text(text)) becomes \(utf8Text(rewritten))")
                counts.acceptedByServerLibraryCount += 1
            }
        } catch {
            Issue.record("the library does not read \(utf8Text(text)): \(error)")
        }
    }

    /// Compares two decisions about a record: whether the library for app servers would send it, and whether the worker
    /// accepts it.
    private func compareServerLibraryValidation(_ text: [UInt8], _ kind: RecordCheck.Kind, _ counts: inout Counts) {
        let now = Date(timeIntervalSince1970: Double(WorkerCore.now.wallSeconds))
        let value = Data(text)
        guard let rewritten = try? ServerLibrary.rewrite(value, kind) else { return }
        do {
            let refusedFields = try ServerLibrary.refusedFields(value, kind, now: now)
            let refusal = WorkerCore.refusal(of: Array(rewritten), on: kind.topic)
            if !refusedFields.isEmpty { counts.refusedByServerLibraryCount += 1 }
            if refusedFields.isEmpty, let refusal, refusal.hasPrefix("unknownApp") || refusal.hasPrefix("unknownPolicy")
            {
                counts.serverLibraryDifferences["\(ValidationDifference.names)", default: 0] += 1
                return
            }
            let rewrittenText = utf8Text(Array(rewritten))
            let isSame = refusedFields.isEmpty == (refusal == nil)
            #expect(isSame, "\(rewrittenText): the library finds \(refusedFields), the worker \(refusal as Any)")
            guard let fault = decodingFault(Array(rewritten), kind), !refusedFields.isEmpty else { return }
            #expect(
                isNamed(fault, in: refusedFields),
                "\(rewrittenText): the library names \(refusedFields), the worker \(fault.path.field.path)"
            )
        } catch {
            Issue.record("the library does not check \(utf8Text(text)): \(error)")
        }
    }

    /// Whether the library for app servers names the same field as the worker, or a field inside it. For a rule about
    /// several keys, the library may name another of these keys.
    private func isNamed(_ fault: Fault, in refusedFields: [String]) -> Bool {
        switch fault.code {
        case .notAllowed, .missingField, .unknownKey: true
        default: refusedFields.contains { $0.hasPrefix(fault.path.field.path.description) }
        }
    }

    private func utf8Text(_ text: [UInt8]) -> String { String(decoding: text, as: UTF8.self) }
}

extension RecordCheck.Kind {
    var topic: RecordTopic {
        switch self {
        case .command: .commands
        case .registration: .registrations
        }
    }
}
