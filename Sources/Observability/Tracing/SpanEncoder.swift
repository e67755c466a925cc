import CausewayConfiguration
import Delivery
import Documents
import Glibc
import LiveActivity
import Numbers

/// Makes a request in OpenTelemetry's form (`TraceRequest`) from finished traces. Each ``FinishedTrace`` has up to
/// three spans:
///
/// - `consume <topic>`, kind consumer: from the record's receipt until the lane produced its result, or finished it
///   without a result. The result names this span as its parent.
/// - `admit`, if the record was admitted: from the receipt to the last decision of Redis before APNs' first response,
///   including the wait for pace and budget.
/// - `send`, kind client, if an attempt was sent completely: from the last attempt to APNs' response, or to the loss of
///   the connection.
///
/// A command to an audience has one `consume` span until it is fanned out, and below it one span `consume <fan-out
/// topic>` for each range. A range's result names the range's span. A broadcast has no span, so its result names the
/// command's span. The command's own result names the span of the range that ended last, or the command's span if a
/// broadcast ended last.
///
/// The attributes follow OpenTelemetry's conventions for messaging and HTTP; Causeway's own begin with `causeway.`. No
/// attribute contains a token, or the id of an activity or device.
package struct SpanEncoder: Sendable {
    var commandsTopic: String
    var registrationsTopic: String
    var fanoutTopic: String
    var groupId: String
    /// The apps' bundle ids, by index.
    var apps: [String]
    /// The name of the machine or pod on which this process runs. Traces tell the workers apart by it.
    var hostName: String

    package init(_ configuration: WorkerConfiguration) {
        commandsTopic = configuration.kafka.topics.commands
        registrationsTopic = configuration.kafka.topics.registrations
        fanoutTopic = configuration.kafka.topics.fanout
        groupId = configuration.kafka.groupId
        apps = configuration.apps.map(\.bundleId)
        var hostNameBuffer = [CChar](repeating: 0, count: 256)
        gethostname(&hostNameBuffer, hostNameBuffer.count - 1)
        hostName = hostNameBuffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }

    /// Returns the traces as the JSON body of a request to the collector (OTLP).
    func json(_ traces: [FinishedTrace]) throws -> [UInt8] {
        let resource = TraceRequest.Resource(attributes: [
            .init("service.name", "causeway"), .init("service.instance.id", hostName),
        ])
        let scope = TraceRequest.ScopeSpans(scope: .init(name: "causeway"), spans: traces.flatMap(spans))
        let request = TraceRequest(resourceSpans: [.init(resource: resource, scopeSpans: [scope])])
        return try StableJSON.bytes(request)
    }

    private func spans(of trace: FinishedTrace) -> [TraceRequest.Span] {
        var spans = [consumeSpan(of: trace)]
        if trace.admittedAtWallMilliseconds >= 0 {
            spans.append(
                Self.span(
                    trace,
                    identifier: trace.childSpanIdentifier(number: 1),
                    parent: trace.context.spanIdentifier,
                    name: "admit",
                    kind: .internal,
                    times: (trace.receivedAtWallMilliseconds, trace.admittedAtWallMilliseconds),
                    attributes: []
                )
            )
        }
        if trace.sentAtWallMilliseconds >= 0, trace.responseAtWallMilliseconds >= trace.sentAtWallMilliseconds {
            spans.append(
                Self.span(
                    trace,
                    identifier: trace.childSpanIdentifier(number: 2),
                    parent: trace.context.spanIdentifier,
                    name: "send",
                    kind: .client,
                    times: (trace.sentAtWallMilliseconds, trace.responseAtWallMilliseconds),
                    attributes: [
                        .init("http.request.method", "POST"),
                        .init("http.response.status_code", Int64(trace.status)),
                        .init("causeway.attempts", Int64(trace.attemptCount)),
                        .init("causeway.priority", Int64(trace.priority)),
                    ]
                )
            )
        }
        return spans
    }

    private func consumeSpan(of trace: FinishedTrace) -> TraceRequest.Span {
        let topic = topic(of: trace)
        var attributes: [TraceRequest.Attribute] = [
            .init("messaging.system", "kafka"),
            .init("messaging.operation.name", "consume"),
            .init("messaging.operation.type", "process"),
            .init("messaging.destination.name", topic),
            .init("messaging.destination.partition.id", "\(trace.partition)"),
            .init("messaging.consumer.group.name", groupId),
            .init("messaging.kafka.offset", trace.offset),
            .init("causeway.outcome", "\(trace.recordOutcome.name)"),
        ]
        if case .range(_, let memberCount) = trace.recordOutcome {
            attributes.append(.init("causeway.members", Int64(memberCount)))
        }
        if trace.recordOutcome != .outcome(.invalid) {
            attributes.append(.init("causeway.event", "\(trace.event.name)"))
        }
        if apps.indices.contains(trace.appIndex) {
            attributes.append(.init("causeway.app", apps[trace.appIndex]))
        }
        return Self.span(
            trace,
            identifier: trace.context.spanIdentifier,
            parent: trace.parentSpanIdentifier,
            name: "consume \(topic)",
            kind: .consumer,
            times: (trace.receivedAtWallMilliseconds, trace.finishedAtWallMilliseconds),
            attributes: attributes
        )
    }

    private func topic(of trace: FinishedTrace) -> String {
        if case .range = trace.recordOutcome { return fanoutTopic }
        return trace.topic == .commands ? commandsTopic : registrationsTopic
    }

    private static func span(
        _ trace: FinishedTrace,
        identifier: UInt64,
        parent: UInt64?,
        name: String,
        kind: TraceRequest.Span.Kind,
        times: (beganAtWallMilliseconds: Int64, endWallMilliseconds: Int64),
        attributes: [TraceRequest.Attribute]
    ) -> TraceRequest.Span {
        TraceRequest.Span(
            traceId: Hexadecimal.text(trace.context.traceIdentifierHigh)
                + Hexadecimal.text(trace.context.traceIdentifierLow),
            spanId: Hexadecimal.text(identifier),
            parentSpanId: parent.map { Hexadecimal.text($0) },
            // Bits 0 and 1: the trace is sampled, its id is random. Bit 8: bit 9 is valid. Bit 9: the parent span may
            // be in another process, which only a `consume` span can have.
            flags: UInt32(trace.context.flags) | (kind == .consumer && parent != nil ? 0x300 : 0x100),
            name: name,
            kind: kind,
            startTimeUnixNano: nanosecondText(times.beganAtWallMilliseconds),
            // A deferred command keeps the time at which it was first received, so the times may come from the clocks
            // of two workers. The end must not be before the beginning.
            endTimeUnixNano: nanosecondText(max(times.beganAtWallMilliseconds, times.endWallMilliseconds)),
            attributes: attributes,
            status: trace.recordOutcome.isError && kind != .internal ? .error : nil
        )
    }

    private static func nanosecondText(_ milliseconds: Int64) -> String { String(max(0, milliseconds)) + "000000" }
}

extension FinishedTrace.RecordOutcome {
    fileprivate var name: StaticString {
        switch self {
        case .outcome(let outcome): outcome.name
        case .fannedOut: "fannedOut"
        case .range(let outcome, _): outcome.name
        }
    }

    fileprivate var isError: Bool {
        guard case .outcome(let outcome) = self else { return false }
        return outcome.isError
    }
}
