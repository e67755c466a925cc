import CRdkafka
import Glibc

/// Receives a client's log lines, errors and statistics. Called inside a poll of the client, on the polling thread. The
/// bytes are valid only during the call.
public protocol ClientEventHandler: AnyObject {
    /// Reports a log line of librdkafka.
    ///
    /// - Parameters:
    ///   - level: syslog severity, 0 (emergency) to 7 (debug).
    ///   - facility: librdkafka's short name for the kind of line, such as `FAIL`.
    func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer)
    /// Reports an error of the whole client, for example that all brokers are down. The client continues, unless
    /// `isFatal`.
    func clientReportedError(_ error: KafkaError)
    /// Reports librdkafka's statistics as JSON. Called every `statistics.interval.ms`; never if that property is not
    /// set.
    func clientReportedStatistics(json: UnsafeRawBufferPointer)
}

/// The object that librdkafka passes to all callbacks of one client, as their context. The client's owner must keep the
/// object until `rd_kafka_destroy` has returned.
final class CallbackContext {
    weak var eventHandler: (any ClientEventHandler)?
    /// Weak, because the consumer owns this object.
    weak var consumer: Consumer?

    init(eventHandler: (any ClientEventHandler)?) {
        self.eventHandler = eventHandler
    }

    /// Keeps this context until the process ends. Call this for a client that was not freed in time: its threads still
    /// run, and may use the context.
    func keepUntilProcessEnds() { _ = Unmanaged.passRetained(self) }

    /// Registers the callbacks that all kinds of clients need.
    func install(on configuration: borrowing ClientConfiguration) {
        configuration.withHandle { handle in
            rd_kafka_conf_set_opaque(handle, Unmanaged.passUnretained(self).toOpaque())
            rd_kafka_conf_set_log_cb(handle, logCallback)
            rd_kafka_conf_set_error_cb(handle, errorCallback)
            rd_kafka_conf_set_stats_cb(handle, statisticsCallback)
        }
    }

    /// Passes a log line, an error or statistics to the event handler; ignores other events. Called by a producer,
    /// which polls its queue for events: librdkafka then calls no callbacks.
    func passToEventHandler(_ event: OpaquePointer) {
        guard let eventHandler else { return }
        switch rd_kafka_event_type(event) {
        case RD_KAFKA_EVENT_LOG:
            var facility: UnsafePointer<CChar>?
            var message: UnsafePointer<CChar>?
            var level: Int32 = 0
            guard rd_kafka_event_log(event, &facility, &message, &level) == 0 else { return }
            eventHandler.clientLogged(level: level, facility: bytes(of: facility), message: bytes(of: message))
        case RD_KAFKA_EVENT_ERROR:
            var error = KafkaError(
                rd_kafka_event_error(event),
                rd_kafka_event_error_string(event).map { String(cString: $0) }
            )
            error.isFatal = rd_kafka_event_error_is_fatal(event) != 0
            eventHandler.clientReportedError(error)
        case RD_KAFKA_EVENT_STATS:
            eventHandler.clientReportedStatistics(json: bytes(of: rd_kafka_event_stats(event)))
        default:
            break
        }
    }
}

/// Returns the context of `client`; nil before `rd_kafka_new` has stored it.
private func callbackContext(of client: OpaquePointer?) -> CallbackContext? {
    guard let client, let opaque = rd_kafka_opaque(client) else { return nil }
    return Unmanaged<CallbackContext>.fromOpaque(opaque).takeUnretainedValue()
}

private func bytes(of text: UnsafePointer<CChar>?) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: text, count: text.map { strlen($0) } ?? 0)
}

private func logCallback(
    _ client: OpaquePointer?,
    _ level: Int32,
    _ facility: UnsafePointer<CChar>?,
    _ message: UnsafePointer<CChar>?
) {
    callbackContext(of: client)?.eventHandler?
        .clientLogged(
            level: level,
            facility: bytes(of: facility),
            message: bytes(of: message)
        )
}

private func errorCallback(
    _ client: OpaquePointer?,
    _ code: Int32,
    _ reason: UnsafePointer<CChar>?,
    _ opaque: UnsafeMutableRawPointer?
) {
    guard let client, let handler = callbackContext(of: client)?.eventHandler else { return }
    // librdkafka gives all fatal errors the same code, so ask the client which error it is.
    let error = fatalError(of: client) ?? KafkaError(rd_kafka_resp_err_t(code), reason.map { String(cString: $0) })
    handler.clientReportedError(error)
}

private func statisticsCallback(
    _ client: OpaquePointer?,
    _ json: UnsafeMutablePointer<CChar>?,
    _ count: Int,
    _ opaque: UnsafeMutableRawPointer?
) -> Int32 {
    callbackContext(of: client)?.eventHandler?
        .clientReportedStatistics(json: UnsafeRawBufferPointer(start: json, count: count))
    return 0
}

/// Returns the error that made `client` unusable; nil if there is none.
func fatalError(of client: OpaquePointer) -> KafkaError? {
    var text = ErrorTextBuffer()
    let code = rd_kafka_fatal_error(client, &text.bytes, ErrorTextBuffer.capacity)
    guard code != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
    return KafkaError(code: code.rawValue, reason: text.string, isFatal: true)
}
