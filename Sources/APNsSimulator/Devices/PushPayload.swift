/// What a push's body contains. The body was read into a `JSONTape`. If a property's name ends in `Index`, the property
/// is the index of a value on this tape; nil: the body has no such value.
///
/// Only the structure of the JSON is checked here. `DeviceModel` decides what the values mean for an activity.
struct PushPayload {
    enum Event: UInt8 {
        case start, update, end
    }

    /// Why a phone cannot decode a body. APNs responds with 200 to such a push, because APNs checks only the size of
    /// the body. For a broadcast, APNs also checks that the body is a JSON object.
    enum Fault: Error {
        case notJSON, noAps, noEvent, unknownEvent, noTimestamp
    }

    var event: Event
    /// The `timestamp` of the push, UNIX seconds.
    var timestamp: Int64
    var contentStateIndex: Int?
    var attributesIndex: Int?
    var attributesTypeIndex: Int?
    var alertIndex: Int?
    /// The `stale-date`, UNIX seconds.
    var staleDateSeconds: Int64?
    /// The `dismissal-date`, UNIX seconds.
    var dismissalDateSeconds: Int64?
    var relevanceScore: Double?
    /// The id of the broadcast channel on which a start begins its activity. An activity on a channel gets no update
    /// token.
    var inputPushChannelIndex: Int?

    /// Reads a body into the tape and finds its parts.
    init(_ body: UnsafeRawBufferPointer, tape: inout JSONTape) throws(Fault) {
        do throws(JSONTape.Fault) {
            try tape.read(body)
        } catch {
            throw .notJSON
        }
        guard let aps = tape.member("aps", of: 0), tape[aps].kind == .object else { throw .noAps }
        try self.init(aps: aps, tape)
    }

    private init(aps: Int, _ tape: borrowing JSONTape) throws(Fault) {
        var eventIndex: Int?
        var timestampIndex: Int?
        event = .update
        timestamp = 0
        let end = Int(tape[aps].nextIndex)
        var index = aps + 1
        while index < end {
            let key = tape.bytes(index)
            let value = index + 1
            // Branch by the key's length first. Most keys then need only one comparison.
            switch key.count {
            case 5:
                if isEqual(key, "event") { eventIndex = eventIndex ?? value }
                if isEqual(key, "alert") { alertIndex = alertIndex ?? value }
            case 9: if isEqual(key, "timestamp") { timestampIndex = timestampIndex ?? value }
            case 10:
                if isEqual(key, "attributes") { attributesIndex = attributesIndex ?? value }
                if isEqual(key, "stale-date") { staleDateSeconds = staleDateSeconds ?? tape.integer(value) }
            case 13: if isEqual(key, "content-state") { contentStateIndex = contentStateIndex ?? value }
            case 14:
                if isEqual(key, "dismissal-date") { dismissalDateSeconds = dismissalDateSeconds ?? tape.integer(value) }
            case 15:
                if isEqual(key, "attributes-type") { attributesTypeIndex = attributesTypeIndex ?? value }
                if isEqual(key, "relevance-score") { relevanceScore = relevanceScore ?? tape.double(value) }
            case 18: if isEqual(key, "input-push-channel") { inputPushChannelIndex = inputPushChannelIndex ?? value }
            default: break
            }
            index = Int(tape[value].nextIndex)
        }
        guard let eventIndex, tape[eventIndex].kind == .string else { throw .noEvent }
        let eventName = tape.bytes(eventIndex)
        if isEqual(eventName, "update") {
            event = .update
        } else if isEqual(eventName, "start") {
            event = .start
        } else if isEqual(eventName, "end") {
            event = .end
        } else {
            throw .unknownEvent
        }
        guard let timestampIndex, let seconds = tape.integer(timestampIndex) else { throw .noTimestamp }
        timestamp = seconds
    }

    /// Whether an alert is enough for a start: it has a title and a body. Each must be a text that is not
    /// empty, or an object with a `loc-key`.
    static func isCompleteAlert(_ tape: borrowing JSONTape, at index: Int?) -> Bool {
        guard let index, tape[index].kind == .object else { return false }
        return isNonemptyText(tape, at: tape.member("title", of: index))
            && isNonemptyText(tape, at: tape.member("body", of: index))
    }

    private static func isNonemptyText(_ tape: borrowing JSONTape, at index: Int?) -> Bool {
        guard let index else { return false }
        switch tape[index].kind {
        case .string: return !tape.bytes(index).isEmpty
        case .object:
            guard let key = tape.member("loc-key", of: index) else { return false }
            return tape[key].kind == .string && !tape.bytes(key).isEmpty
        default: return false
        }
    }
}
