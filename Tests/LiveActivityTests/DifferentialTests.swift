import Foundation
import Numbers
import RecordTestbed
import Testbed
import Testing

@testable import LiveActivity

@Suite("Compared with Foundation, on mutated texts", .ownThread)
struct DifferentialTests {
    static let seeds: [[UInt8]] =
        ([
            RecordText.update, .start, .end, .start.with("aps.input-push-token", "1"),
            .start.with("aps.alert.title", #"{"loc-key":"GOAL","loc-args":["a","b"]}"#),
            .toAudience, .startOfAudience,
            .update.with("aps.new", #"[1,{"a":null}]"#).with("activity", #""\u00e9\"é""#),
        ] as [RecordText])
        .map { Array($0.text.utf8) }
        + Corpus.commands.filter { $0.name.hasPrefix("accepted") }.map(\.bytes)

    @Test func `The grammar accepts the same texts as Foundation`() {
        let values: [[UInt8]] =
            GrammarTests.validTexts.map { Array($0.utf8) } + GrammarTests.invalidTexts.map { Array($0.text.utf8) }
            + Self.seeds
        var mutator = JSONMutator(random: SplitMix64(seed: 1), originals: values)
        var acceptedCount = 0
        for _ in 0..<20_000 {
            let text = mutator.next()
            let ourFault = Grammar.faultOfWholeText(text)
            let isReadByFoundation = FoundationValue(text) != nil
            if ourFault == nil { acceptedCount += 1 }
            switch (ourFault, isReadByFoundation) {
            case (nil, true), (_?, false): continue
            case (nil, false) where FoundationDeviation.hasNumberBeyondDouble(text): continue
            case (let fault?, true)
            where FoundationDeviation.isTrailingComma(text, fault) || FoundationDeviation.isOtherEncoding(text)
                || FoundationDeviation.decoderOnlyFaults.contains(fault.code):
                continue
            default:
                Issue.record("\(String(describing: ourFault)): \(String(decoding: text, as: UTF8.self)), \(text)")
            }
        }
        #expect(acceptedCount > 2_000, "enough mutated texts stay valid")
    }

    @Test func `Commands have the same fields and the same bodies as with Foundation`() throws {
        var mutator = JSONMutator(random: SplitMix64(seed: 2), originals: Self.seeds)
        var acceptedCount = 0
        for _ in 0..<10_000 {
            let text = mutator.next()
            let record = Record(text)
            let value = FoundationValue(text)
            let model = value.flatMap { CommandModel($0) }
            do throws(Fault) {
                let command = try record.command()
                acceptedCount += 1
                guard value != nil || !FoundationDeviation.hasNumberBeyondDouble(text) else { continue }
                #expect(CommandModel(command, in: record) == model, "\(String(decoding: text, as: UTF8.self))")
                checkBody(command, record, text)
            } catch {
                let isKnown =
                    FoundationDeviation.isTrailingComma(text, error) || FoundationDeviation.isOtherEncoding(text)
                    || FoundationDeviation.decoderOnlyFaults.contains(error.code)
                    || FoundationDeviation.isIntegerInOtherForm(text, error)
                if model != nil, !isKnown { Issue.record("\(error): \(String(decoding: text, as: UTF8.self))") }
                // Makes the message of every fault, so that a fault without a message fails here.
                #expect(!error.message(in: record.bytes).isEmpty)
            }
        }
        #expect(acceptedCount > 1_000, "enough mutated commands stay valid")
    }

    private func checkBody(_ command: Command, _ record: Record, _ text: [UInt8]) {
        let recordObject = (try? JSONSerialization.jsonObject(with: Data(text))) as? [String: Any]
        let body = (try? JSONSerialization.jsonObject(with: Data(record.body(command).text))) as? [String: Any]
        guard let recordObject, let body, let aps = recordObject["aps"] else {
            Issue.record("no body: \(String(decoding: text, as: UTF8.self))")
            return
        }
        var expected = recordObject["payload"] as? [String: Any] ?? [:]
        expected["aps"] = aps
        #expect(NSDictionary(dictionary: body) == NSDictionary(dictionary: expected))
    }

    @Test func `Registrations never trap, and hold what Foundation reads`() {
        let seeds = ([RecordText.registration, .pushToStart] as [RecordText]).map { Array($0.text.utf8) }
        var mutator = JSONMutator(random: SplitMix64(seed: 3), originals: seeds)
        for _ in 0..<10_000 {
            let text = mutator.next()
            let record = Record(text)
            guard let registration = try? record.registration() else { continue }
            guard let object = FoundationValue(text)?.object else {
                Issue.record("Foundation refuses \(String(decoding: text, as: UTF8.self))")
                continue
            }
            #expect(record.string(registration.app) == object["app"]?.string)
            #expect(registration.environment.name.description == object["environment"]?.string)
            #expect(UInt64(registration.registeredAtMilliseconds) == object["registeredAt"]?.unsigned)
            switch registration.kind {
            case .activity(let activity):
                #expect(record.string(activity.activity) == object["activity"]?.string)
                #expect(record.string(activity.token) == object["token"]?.string)
                #expect(object["device"] == nil)
            case .pushToStart(let device):
                #expect(record.string(device.device) == object["device"]?.string)
                #expect(record.string(device.attributesType) == object["attributesType"]?.string)
                #expect(object["activity"] == nil)
            }
        }
    }
}

extension Grammar {
    static func faultOfWholeText(_ text: [UInt8]) -> Fault? {
        let record = Record(text)
        do throws(Fault) {
            let text = try JSONText(record.bytes)
            try text.requireRecordEnd(text.skipValue(text.skipWhitespace(0), depth: 0, .record))
            return nil
        } catch {
            return error
        }
    }
}
