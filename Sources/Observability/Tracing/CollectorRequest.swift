import CausewayConfiguration
import HTTP
import Reactor

/// One `POST` to a collector. It blocks, so it needs a thread that has nothing else to do.
struct CollectorRequest: Sendable {
    struct Failure: Error, Equatable, CustomStringConvertible {
        var cause: TracePostFailure
        /// For logs. Has nothing from the request's headers.
        var description: String
    }

    var address: CollectorAddress
    /// Required for an address with `https`.
    var tls: TLSContext?
    /// Read again for each request, so that a credential can be replaced; see ``CollectorHeaders``.
    var headersFile: String?
    /// The limit for the whole request, including the name look-up.
    var timeoutMilliseconds: Int
    /// Signalled when nobody waits any longer; see `HTTPClient`.
    var interruption: Wakeup

    /// - Returns: the status of the answer.
    func post(_ body: [UInt8]) throws(Failure) -> Int {
        var client = HTTPClient(
            address: HTTPAddress(server: address.server, path: address.path),
            timeoutMilliseconds: timeoutMilliseconds
        )
        client.tls = tls
        client.readsOnlyStatus = true
        client.interruption = interruption
        let headers: String
        do throws(SecretFileError) {
            headers = try headersFile.map { path throws(SecretFileError) in try CollectorHeaders.read(path) } ?? ""
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

/// Why a request failed; `reason` in `causeway_trace_posts_failed_total`.
enum TracePostFailure: UInt8, CaseIterable, Sendable {
    /// The collector's name could not be resolved.
    case unresolved
    /// No connection could be made.
    case unconnected
    /// The collector's certificate is not trusted, out of date, or for another name.
    case certificate
    /// The connection ended, or TLS failed otherwise, before the answer.
    case lost
    /// The answer is not HTTP.
    case malformed
    /// The time limit passed before the answer.
    case late
    /// The answer is 429, 502, 503 or 504: a retry may succeed.
    case overloaded
    /// The answer is another status that is no success.
    case refused
    /// The file with the headers could not be read.
    case headers
    /// The worker got a second signal to stop.
    case hurried

    var name: String { "\(self)" }

    init(_ cause: HTTPClientError.Cause) {
        self =
            switch cause {
            case .unresolved: .unresolved
            case .unconnected: .unconnected
            case .certificate: .certificate
            case .lost: .lost
            case .malformed, .tooLarge: .malformed
            case .late: .late
            case .interrupted: .hurried
            }
    }
}
