import CausewayRecords
import Foundation

/// What the kit makes of records. Only this file imports it, because its types have the names of the worker's.
enum Kit {
    /// The record as the kit writes it after reading it.
    static func rewritten(command value: Data) throws -> Data {
        try LiveActivityCommand<JSONValue>(value: value).value()
    }

    static func rewritten(registration value: Data) throws -> Data {
        try Registration(value: value).value()
    }
}
