import CausewayConfiguration
import HTTP
import Reactor

/// One `POST` to a collector. ``post(_:)`` blocks its thread until the end of the request, so call it on a thread
/// without other work.
struct CollectorRequest: Sendable {
    struct Failure: Error, Equatable, CustomStringConvertible {
        var cause: TracePostFailure
        /// The text for logs, without any header of the request.
        var description: String
    }

    var address: CollectorAddress
    /// Required for an address with `https`.
    var tls: TLSContext?
    /// The file with the headers (``CollectorHeaders``). It is read for each request, so that a credential can be
    /// replaced.
    var headersFile: String?
    /// The time limit of the whole request, including the name look-up.
    var timeoutMilliseconds: Int
    /// Signalled to cancel the request; see `HTTPClient`.
    var cancellationWakeup: Wakeup

    /// Sends the body, and returns the status of the response. Blocks until the response has arrived or the request has
    /// failed.
    func post(_ body: [UInt8]) throws(Failure) -> Int {
        var client = HTTPClient(
            address: HTTPAddress(server: address.server, path: address.path),
            timeoutMilliseconds: timeoutMilliseconds
        )
        client.tls = tls
        client.readsOnlyStatus = true
        client.cancellationWakeup = cancellationWakeup
        let headers: String
        do throws(SecretFileError) {
            headers =
                try headersFile.map { path throws(SecretFileError) in try CollectorHeaders.readLines(path: path) } ?? ""
        } catch {
            throw Failure(cause: .headers, description: error.description)
        }
        do throws(HTTPClientError) {
            return try client.request("POST", fields: headers, body: body).status
        } catch {
            throw Failure(cause: TracePostFailure(error.cause), description: error.description)
        }
    }
}

/// Why a request failed, the label `reason` of `causeway_trace_posts_failed_total`.
enum TracePostFailure: UInt8, CaseIterable, Sendable {
    /// The collector's name could not be resolved.
    case unresolved
    /// No connection could be made.
    case unconnected
    /// The collector's certificate is not trusted, is out of date, or is for another name.
    case certificate
    /// The connection ended, or TLS failed for another reason, before the response.
    case lost
    /// The response is not valid HTTP, or is too large.
    case malformed
    /// The time limit passed before the response.
    case late
    /// The response is 429, 502, 503 or 504, so a retry may succeed.
    case overloaded
    /// The response allows no retry: its status is not 2xx, 429, 502, 503 or 504. Or the traces could not be encoded.
    case refused
    /// The file with the headers could not be read, or has an invalid header.
    case headers
    /// A second stop signal cancelled the request.
    case hurried

    var name: String { "\(self)" }

    init(_ cause: HTTPClientError.Cause) {
        self =
            switch cause {
            case .resolveFailed: .unresolved
            case .connectFailed: .unconnected
            case .certificateRefused: .certificate
            case .connectionLost: .lost
            case .responseMalformed, .responseTooLarge: .malformed
            case .timedOut: .late
            case .cancelled: .hurried
            }
    }
}
