import Foundation

@testable import CausewayRecords
@testable import causeway

/// Calls the library for app servers. Only this file imports the library, because its types have the same names as the
/// worker's.
enum ServerLibrary {
    /// Reads a record with the library, and returns it as the library writes it. For the worker, this text and the
    /// original must mean the same.
    static func rewrite(_ value: Data, _ kind: RecordCheck.Kind) throws -> Data {
        switch kind {
        case .command: try LiveActivityCommand<JSONValue>(value: value).value()
        case .registration: try Registration(value: value).value()
        }
    }

    /// Returns the command as the library writes it from its properties alone. ``rewrite(_:_:)`` also writes received
    /// fields for which the library has no property.
    static func writeOwnFields(_ value: Data) throws -> Data {
        try LiveActivityCommand<JSONValue>(value: value).makePropertiesJSON().text()
    }

    /// Returns the fields for which the library would refuse to send the record.
    static func refusedFields(_ value: Data, _ kind: RecordCheck.Kind, now: Date) throws -> [String] {
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

    static func rewrite(_ value: Data, _ topic: OutputRecordAgreementTests.Topic) throws -> Data {
        switch topic {
        case .results: try LiveActivityResult(value: value).value()
        case .invalidations: try Invalidation(value: value).value()
        case .channels: try Channel(value: value).value()
        }
    }
}
