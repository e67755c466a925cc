import CausewayRecords
import Foundation

@testable import causeway

/// What the kit makes of records. Only this file imports it, because its types have the names of the worker's.
enum Kit {
    /// The record as the kit writes it after reading it.
    static func rewritten(_ value: Data, _ kind: RecordCheck.Kind) throws -> Data {
        switch kind {
        case .command: try LiveActivityCommand<JSONValue>(value: value).value()
        case .registration: try Registration(value: value).value()
        }
    }

    /// The fields that the kit finds wrong before it sends a record that it has read.
    static func wrongFields(_ value: Data, _ kind: RecordCheck.Kind, now: Date) throws -> [String] {
        do {
            switch kind {
            case .command: try LiveActivityCommand<JSONValue>(value: value).validate(now: now)
            case .registration: try Registration(value: value).validate()
            }
            return []
        } catch let refusal as InvalidRecord {
            return refusal.faults.map(\.field)
        }
    }

    static func rewritten(_ value: Data, _ topic: WrittenRecordTests.Topic) throws -> Data {
        switch topic {
        case .results: try LiveActivityResult(value: value).value()
        case .invalidations: try Invalidation(value: value).value()
        case .channels: try Channel(value: value).value()
        }
    }
}
