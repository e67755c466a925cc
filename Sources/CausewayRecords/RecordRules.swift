import Foundation

/// The worker's rules for commands and registrations.
struct RecordRules: Sendable {
    struct Limits: Sendable {
        var recordBytesMax: Int
        /// The maximum number of bytes between the quotes of a string, with its escapes.
        var stringBytesMax: Int
        var nestingDepthMax: Int
        var bodyBytesMax: Int
        /// The maximum length of a body in bytes if the command names a channel.
        var broadcastBodyBytesMax: Int
        var timestampLeadSecondsMax: Int64
    }

    static let command = RecordRules(commandSchema)
    static let registration = RecordRules(registrationSchema)

    private let schema: RecordSchema

    private init(_ text: String) {
        guard let root = try? JSONValue(text: text.utf8) else {
            preconditionFailure("the generated schema is not JSON")
        }
        schema = RecordSchema(root)
    }

    /// Checks a record.
    ///
    /// - Throws: an ``InvalidRecord`` with all faults that were found, or another error if a value cannot be encoded as
    ///   JSON.
    /// - Parameter now: the time with which `aps.timestamp` is compared.
    func check(_ record: JSONValue, now: Date) throws {
        var faults = schema.findFaults(of: record)
        let text = try record.text()
        if text.count > Self.limits.recordBytesMax {
            faults.append(
                RecordFault("", "the record has \(text.count) bytes, \(Self.limits.recordBytesMax) are allowed")
            )
        }
        faults += Self.findSizeFaults(of: record, "", depth: 1)
        if case .object(let members) = record, let aps = members["aps"] {
            faults += try Self.findBodySizeFaults(members, aps) + Self.findTimestampFaults(aps, now)
        }
        guard faults.isEmpty else { throw InvalidRecord(faults: faults) }
    }

    /// Returns a fault for each string or key that is too long, and for each object or array that is nested too deep.
    /// Does not check what is inside an object or array that is nested too deep.
    ///
    /// - Parameter depth: the nesting depth of the value, if it is an object or an array.
    private static func findSizeFaults(of value: JSONValue, _ path: String, depth: Int) -> [RecordFault] {
        switch value {
        case .null, .boolean, .integer, .unsigned, .number, .numeral: return []
        case .string(let text): return findStringFaults(text, path)
        case .array, .object:
            guard depth <= limits.nestingDepthMax else {
                return [RecordFault(path, "more than \(limits.nestingDepthMax) nested objects and arrays")]
            }
            if case .array(let elements) = value {
                return elements.flatMap { findSizeFaults(of: $0, path, depth: depth + 1) }
            }
            guard case .object(let members) = value else { return [] }
            return members.sortedMembers
                .flatMap { key, member in
                    findStringFaults(key, path)
                        + findSizeFaults(of: member, path.isEmpty ? key : "\(path).\(key)", depth: depth + 1)
                }
        }
    }

    private static func findStringFaults(_ text: String, _ path: String) -> [RecordFault] {
        let count = JSONValue.escapedByteCount(text)
        return count <= limits.stringBytesMax
            ? [] : [RecordFault(path, "a string has \(count) bytes, \(limits.stringBytesMax) are allowed")]
    }

    /// Returns a fault if the body for APNs is too large: `{"aps":…}` with the members of `payload`.
    private static func findBodySizeFaults(_ record: JSONObject, _ aps: JSONValue) throws -> [RecordFault] {
        var count = try #"{"aps":}"#.utf8.count + aps.text().count
        if case .object(let members) = record["payload"], let payload = record["payload"], !members.isEmpty {
            // In the body, the members of `payload` follow a comma, and the two braces of `payload` are left out: one
            // byte less.
            count += try payload.text().count - 1
        }
        var bodyBytesMax = limits.bodyBytesMax
        if case .string = record["channel"] { bodyBytesMax = limits.broadcastBodyBytesMax }
        return count <= bodyBytesMax
            ? [] : [RecordFault("", "the request body has \(count) bytes, \(bodyBytesMax) are allowed")]
    }

    private static func findTimestampFaults(_ aps: JSONValue, _ now: Date) -> [RecordFault] {
        guard case .object(let members) = aps, case .integer(let timestamp) = members["timestamp"],
            let seconds = UnixTime.seconds(now), timestamp > seconds
        else { return [] }
        let leadSeconds = timestamp.subtractingReportingOverflow(seconds).partialValue
        guard leadSeconds > limits.timestampLeadSecondsMax else { return [] }
        let message = "is \(leadSeconds) seconds in the future, \(limits.timestampLeadSecondsMax) are allowed"
        return [RecordFault("aps.timestamp", message)]
    }
}
