import Dispatch
import Documents
public import Reactor
import Synchronization

/// The address of Apple's channel management service, with the TLS context and the time limit of its requests.
public struct ManagementEndpoint: Sendable {
    public var host: String
    public var port: UInt16
    public var tls: TLSContext
    /// The longest time that a whole request may take, name resolution included. The wait for earlier requests does not
    /// count.
    public var timeoutMilliseconds: Int64

    public init(host: String, port: UInt16, tls: TLSContext, timeoutMilliseconds: Int64 = 10_000) {
        self.host = host
        self.port = port
        self.tls = tls
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    var authority: String { port == 443 ? host : "\(host):\(port)" }
}

/// Why a request got no complete response.
struct ManagementFault: Error, Sendable, Equatable {
    /// Whether APNs may have processed the request. False if the client did not send the request, or if a RST_STREAM or
    /// GOAWAY frame shows that APNs did not process it.
    var mayHaveBeenProcessed: Bool
    /// The fault in words, for logs and operators.
    var detail: String
}

/// Why a request to the management service did not succeed.
public struct ChannelError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Cause: Sendable, Equatable {
        /// APNs responded with another status than the documented one for success. The reason may be `absent`.
        case refused(Reason)
        /// APNs did not process the request.
        case notProcessed
        /// The client sent the request and got no usable response: APNs may have carried it out.
        case ambiguous
        /// The response does not have the format that Apple documents.
        case malformed
    }

    public var cause: Cause
    /// The HTTP status; 0 without a response.
    public var status: Int
    /// The error in words, for logs and operators. Contains no token and no header.
    public var detail: String

    public var description: String { detail }

    /// Whether the channel that the request names does not exist, or its id is invalid. For example, an operator may
    /// have entered a wrong id.
    public var showsMissingChannel: Bool {
        cause == .refused(.channelNotRegistered) || cause == .refused(.badChannelId)
    }

    /// Whether the same request may succeed later without a change by an operator.
    public var isTransient: Bool {
        switch cause {
        case .notProcessed, .ambiguous, .malformed: true
        case .refused(let reason):
            ResponseDisposition(completion: .responded, status: UInt16(clamping: status), reason: reason).retryHelps
        }
    }
}

/// A client of Apple's channel management, which creates, reads, lists and deletes broadcast channels. It is for one
/// app in one environment.
///
/// Usually there are only a few requests an hour, so each request opens its own connection. At most eight requests run
/// at the same time. The client does not retry: a creation has no idempotency key, so the caller must decide what to do
/// after a request without a response.
public final class ChannelManagementClient: Sendable {
    /// A channel that exists at APNs.
    public struct Channel: Sendable, Equatable {
        public var identifier: String
        /// Whether APNs keeps the newest message of the channel: Apple's storage policy 1.
        public var storesNewestMessage: Bool
    }

    /// The maximum number of requests that wait or run at one time (R4). A further request fails as `notProcessed`.
    public static let pendingRequestsMax = 64
    /// The maximum number of requests that run at one time. Each request blocks a thread until it has its response.
    private static let runningRequestsMax = 8

    private let bundleId: String
    private let endpoint: ManagementEndpoint
    private let makeAuthorization: @Sendable () -> String?
    /// Each queue runs one request at a time, on a thread of its own. One concurrent queue would not do, because all
    /// concurrent queues of the process share a few threads, about one for each processor.
    private let queues = (0..<ChannelManagementClient.runningRequestsMax)
        .map { DispatchQueue(label: "channel management \($0)") }
    /// How many requests wait or run in each of the queues.
    private let pendingRequestCounts = Mutex([Int](repeating: 0, count: ChannelManagementClient.runningRequestsMax))

    /// - Parameters:
    ///   - bundleId: the app's bundle id. It has no suffix, unlike the topic of a push.
    ///   - tokenSource: signs the provider tokens for the app in this environment.
    ///   - unixSeconds: returns the current time, which a provider token contains.
    public init(
        bundleId: String,
        endpoint: ManagementEndpoint,
        tokenSource: ProviderTokenSource,
        unixSeconds: @escaping @Sendable () -> Int64
    ) {
        self.bundleId = bundleId
        self.endpoint = endpoint
        makeAuthorization = {
            tokenSource.provideToken(unixSeconds: unixSeconds()).map { String(decoding: $0.headerValue, as: UTF8.self) }
        }
    }

    /// Creates a channel and returns its id. If the method throws an error with the cause `ambiguous`, APNs may have
    /// created a channel, and the channel's id is unknown.
    public func create(storesNewestMessage: Bool) async throws(ChannelError) -> String {
        let body: [UInt8]
        do {
            body = try StableJSON.bytes(
                ManagementBody.Channel(storagePolicy: storesNewestMessage ? 1 : 0, pushType: "LiveActivity")
            )
        } catch {
            throw ChannelError(cause: .notProcessed, status: 0, detail: "the request cannot be written: \(error)")
        }
        let response: ManagementResponse
        do throws(ChannelError) {
            response = try await perform(
                ManagementRequest(method: .post, path: channelsPath, body: body),
                expecting: 201
            )
        } catch {
            // After a 5xx, or a 2xx other than 201, APNs may have created the channel. But a 503 counts as a refusal:
            // the service takes no requests. If it were ambiguous, each outage would leave intents (R32), and workers
            // could delete other programs' new channels (K14).
            guard error.status >= 500 && error.status != 503 || error.status / 100 == 2 else { throw error }
            throw ChannelError(cause: .ambiguous, status: error.status, detail: error.detail)
        }
        guard let channel = response.channelIdentifier, !channel.isEmpty else {
            // APNs has created the channel, but its id is unknown.
            throw ChannelError(cause: .ambiguous, status: response.status, detail: "201 without apns-channel-id")
        }
        return channel
    }

    /// Returns the channel with its storage policy. A channel that does not exist is an error with the cause `refused`
    /// and the reason `channelNotRegistered`.
    public func read(_ channel: String) async throws(ChannelError) -> Channel {
        let response = try await perform(makeRequest(.get, channel), expecting: 200)
        guard let policy = StableJSON.decode(ManagementBody.Channel.self, response.body)?.storagePolicy,
            (0...1).contains(policy)
        else { throw malformedResponseError(response, "no message-storage-policy of 0 or 1") }
        return Channel(identifier: channel, storesNewestMessage: policy == 1)
    }

    /// Deletes a channel. Nothing can restore it. A channel that does not exist is no error.
    ///
    /// - Returns: whether the channel existed.
    @discardableResult
    public func delete(_ channel: String) async throws(ChannelError) -> Bool {
        do throws(ChannelError) {
            _ = try await perform(makeRequest(.delete, channel), expecting: 204)
            return true
        } catch {
            guard error.showsMissingChannel else { throw error }
            return false
        }
    }

    /// Returns the ids of all channels that the app has in the environment, including channels that other
    /// programs have created.
    public func list() async throws(ChannelError) -> [String] {
        let response = try await perform(
            ManagementRequest(method: .get, path: "/1/apps/\(bundleId)/all-channels"),
            expecting: 200
        )
        guard let list = StableJSON.decode(ManagementBody.ChannelList.self, response.body) else {
            throw malformedResponseError(response, "no list of channels")
        }
        return list.channels
    }

    private var channelsPath: String { "/1/apps/\(bundleId)/channels" }

    private func makeRequest(_ method: ManagementRequest.Method, _ channel: String) -> ManagementRequest {
        ManagementRequest(method: method, path: channelsPath, headerFields: [("apns-channel-id", channel)])
    }

    private func malformedResponseError(_ response: ManagementResponse, _ deviation: String) -> ChannelError {
        ChannelError(
            cause: .malformed,
            status: response.status,
            detail: "\(endpoint.authority) responded with \(response.status) and \(deviation)"
        )
    }

    private func refusalError(_ response: ManagementResponse) -> ChannelError {
        let (reason, reasonText) = response.body.withUnsafeBytes { body in
            let response = ErrorContent(body)
            return (response.reason, String(decoding: response.reasonText.prefix(64), as: UTF8.self))
        }
        var detail = "\(endpoint.authority) responded with \(response.status)"
        if !reasonText.isEmpty { detail += " \(reasonText)" }
        if reason.advice.utf8CodeUnitCount > 0 { detail += ": \(reason.advice)" }
        return ChannelError(cause: .refused(reason), status: response.status, detail: detail)
    }

    /// Chooses the queue that has the fewest requests, and adds 1 to its count. Returns nil if ``pendingRequestsMax``
    /// is reached.
    private func reserveQueue() -> Int? {
        pendingRequestCounts.withLock { counts in
            guard counts.reduce(0, +) < Self.pendingRequestsMax,
                let choice = counts.enumerated().min(by: { $0.element < $1.element })
            else { return nil }
            counts[choice.offset] += 1
            return choice.offset
        }
    }

    /// Sends a request after the earlier requests of its queue, and returns the response. Throws if too many requests
    /// wait, if no response comes, or if the response does not have the expected status.
    private func perform(_ request: ManagementRequest, expecting status: Int) async throws(ChannelError)
        -> ManagementResponse
    {
        guard let queueIndex = reserveQueue() else {
            throw ChannelError(
                cause: .notProcessed,
                status: 0,
                detail: "more than \(Self.pendingRequestsMax) requests wait for \(endpoint.authority)"
            )
        }
        defer { pendingRequestCounts.withLock { $0[queueIndex] -= 1 } }
        let cancellationWakeup: Wakeup
        do throws(SystemError) {
            cancellationWakeup = try Wakeup()
        } catch {
            throw ChannelError(cause: .notProcessed, status: 0, detail: "\(error)")
        }
        let result: Result<ManagementResponse, ManagementFault> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let queue = queues[queueIndex]
                queue.async { [endpoint, makeAuthorization] in
                    continuation.resume(
                        returning: Self.performBlocking(request, endpoint, makeAuthorization, cancellationWakeup)
                    )
                }
            }
        } onCancel: {
            cancellationWakeup.signal()
        }
        switch result {
        case .failure(let fault):
            throw ChannelError(
                cause: fault.mayHaveBeenProcessed ? .ambiguous : .notProcessed,
                status: 0,
                detail: fault.detail
            )
        case .success(let response):
            guard response.status != status else { return response }
            throw refusalError(response)
        }
    }

    /// Sends a request on a connection of its own. Blocks the thread until the request has ended.
    private static func performBlocking(
        _ request: ManagementRequest,
        _ endpoint: ManagementEndpoint,
        _ makeAuthorization: @Sendable () -> String?,
        _ cancellationWakeup: Wakeup
    ) -> Result<ManagementResponse, ManagementFault> {
        guard let token = makeAuthorization() else {
            return .failure(ManagementFault(mayHaveBeenProcessed: false, detail: "no provider token could be signed"))
        }
        do {
            return try ManagementExchange(
                request,
                to: endpoint,
                authorization: token,
                cancellationWakeup: cancellationWakeup
            )
            .run()
        } catch {
            return .failure(ManagementFault(mayHaveBeenProcessed: false, detail: "\(error)"))
        }
    }
}
