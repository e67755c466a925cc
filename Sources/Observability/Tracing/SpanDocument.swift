import CausewayConfiguration
import Delivery
import Glibc
import LiveActivity

/// Finished traces in OpenTelemetry's JSON form (OTLP 1.x, ExportTraceServiceRequest): ids are hexadecimal, 64-bit
/// numbers are strings. A record has up to three spans:
///
/// - `consume <topic>`, kind consumer: from its receipt until its result was handed to the producer. The result names
///   this span as its parent.
/// - `admit`: from its receipt to the last verdict of Redis, including the wait for pace and budget. Only if the record was admitted.
/// - `send`, kind client: from the last sending to APNs' answer. Only if APNs answered.
///
/// A command to an audience is consumed twice: until it is fanned out, and then in each range, until all members have
/// had their turn. The spans of the ranges, `consume <fan-out topic>`, are children of the command's span. A range's
/// result names its range's span; the command's result names the span of the last range.
///
/// The attributes follow OpenTelemetry's conventions for messaging and HTTP, and our own begin with `causeway.`. None
/// of them has an id of an activity or device, or a token.
package struct SpanDocument {
    var commandsTopic: String
    var registrationsTopic: String
    var fanoutTopic: String
    var groupIdentifier: String
    /// The apps' bundle ids, by index.
    var applications: [String]
    /// The name of this process, such as a pod's name.
    var instance: String

    package init(_ configuration: WorkerConfiguration) {
        commandsTopic = configuration.kafka.topics.commands
        registrationsTopic = configuration.kafka.topics.registrations
        fanoutTopic = configuration.kafka.topics.fanout
        groupIdentifier = configuration.kafka.groupId
        applications = configuration.apps.map(\.bundleId)
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        instance = name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }

    func json(_ traces: [FinishedTrace]) -> String {
        let spans = traces.flatMap(spans).joined(separator: ",")
        let resource = [Self.text("service.name", "causeway"), Self.text("service.instance.id", instance)]
        return #"{"resourceSpans":[{"resource":{"attributes":["# + resource.joined(separator: ",")
            + #"]},"scopeSpans":[{"scope":{"name":"causeway"},"spans":["# + spans + "]}]}]}"
    }

    private func spans(of trace: FinishedTrace) -> [String] {
        var spans = [consume(trace)]
        if trace.admittedMilliseconds >= 0 {
            spans.append(
                Self.span(
                    trace,
                    identifier: trace.span(inside: 1),
                    parent: trace.context.span,
                    name: "admit",
                    kind: .internal,
                    times: (trace.receivedMilliseconds, trace.admittedMilliseconds),
                    attributes: []
                )
            )
        }
        if trace.sentMilliseconds >= 0, trace.answeredMilliseconds >= trace.sentMilliseconds {
            spans.append(
                Self.span(
                    trace,
                    identifier: trace.span(inside: 2),
                    parent: trace.context.span,
                    name: "send",
                    kind: .client,
                    times: (trace.sentMilliseconds, trace.answeredMilliseconds),
                    attributes: [
                        Self.text("http.request.method", "POST"),
                        Self.number("http.response.status_code", Int64(trace.status)),
                        Self.number("causeway.attempts", Int64(trace.attempts)),
                        Self.number("causeway.priority", Int64(trace.priority)),
                    ]
                )
            )
        }
        return spans
    }

    private func consume(_ trace: FinishedTrace) -> String {
        let topic = topic(of: trace)
        var attributes = [
            Self.text("messaging.system", "kafka"),
            Self.text("messaging.operation.name", "consume"),
            Self.text("messaging.operation.type", "process"),
            Self.text("messaging.destination.name", topic),
            Self.text("messaging.destination.partition.id", "\(trace.partition)"),
            Self.text("messaging.consumer.group.name", groupIdentifier),
            Self.number("messaging.kafka.offset", trace.offset),
            Self.text("causeway.outcome", "\(trace.ending.name)"),
        ]
        if case .range(_, let members) = trace.ending {
            attributes.append(Self.number("causeway.members", Int64(members)))
        }
        if trace.ending != .outcome(.invalid) {
            attributes.append(Self.text("causeway.event", "\(trace.event.name)"))
        }
        if applications.indices.contains(trace.application) {
            attributes.append(Self.text("causeway.app", applications[trace.application]))
        }
        return Self.span(
            trace,
            identifier: trace.context.span,
            parent: trace.parent,
            name: "consume \(topic)",
            kind: .consumer,
            times: (trace.receivedMilliseconds, trace.finishedMilliseconds),
            attributes: attributes
        )
    }

    private func topic(of trace: FinishedTrace) -> String {
        if case .range = trace.ending { return fanoutTopic }
        return trace.topic == .commands ? commandsTopic : registrationsTopic
    }

    private enum Kind: Int {
        case `internal` = 1
        case client = 3
        case consumer = 5
    }

    private static func span(
        _ trace: FinishedTrace,
        identifier: UInt64,
        parent: UInt64?,
        name: String,
        kind: Kind,
        times: (begin: Int64, end: Int64),
        attributes: [String]
    ) -> String {
        let isError = trace.ending.isError && kind != .internal
        return #"{"traceId":""# + hexadecimal(trace.context.traceHigh) + hexadecimal(trace.context.traceLow)
            + #"","spanId":""# + hexadecimal(identifier) + #"","#
            + (parent.map { #""parentSpanId":""# + hexadecimal($0) + #"","# } ?? "")
            // Bit 0: sampled. Bit 1: random. Bits 8 and 9: whether the parent is in another process, which is possible
            // only for `consume`.
            + #""flags":"# + String(trace.context.flags | (kind == .consumer && parent != nil ? 0x300 : 0x100))
            + #","name":""# + name + #"","kind":"# + String(kind.rawValue)
            + #","startTimeUnixNano":""# + nanoseconds(times.begin)
            // The times may come from two threads, so make sure that the end is not before the beginning.
            + #"","endTimeUnixNano":""# + nanoseconds(max(times.begin, times.end))
            + #"","attributes":["# + attributes.joined(separator: ",") + "]"
            + (isError ? #","status":{"code":2}}"# : "}")
    }

    /// A key has nothing that JSON escapes; a value, such as a host's or group's name, may.
    private static func text(_ key: String, _ value: String) -> String {
        #"{"key":""# + key + #"","value":{"stringValue":"# + JSONLiteral.string(value) + "}}"
    }

    private static func number(_ key: String, _ value: Int64) -> String {
        #"{"key":""# + key + #"","value":{"intValue":""# + String(value) + #""}}"#
    }

    private static func nanoseconds(_ milliseconds: Int64) -> String { String(max(0, milliseconds)) + "000000" }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

extension FinishedTrace.Ending {
    fileprivate var name: StaticString {
        switch self {
        case .outcome(let outcome): outcome.name
        case .fannedOut: "fannedOut"
        case .range(let outcome, _): outcome.name
        }
    }

    fileprivate var isError: Bool {
        guard case .outcome(let outcome) = self else { return false }
        return [.failed, .unregistered, .unknown, .invalid].contains(outcome)
    }
}
