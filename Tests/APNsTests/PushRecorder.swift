import APNs
import Testing

/// A copy of a ``PushResponse``, which itself is valid only while the recorder handles it.
struct RecordedResponse: Equatable {
    var completion: PushResponse.Completion
    var status: UInt16
    var reason: Reason
    var reasonText: String
    var invalidAtWallMilliseconds: Int64?
    var wasSent: Bool
    var connection: UInt32?
    var disposition: ResponseDisposition
    var showsAcceptedProviderToken: Bool
}

/// Records every response and every event of a pool.
final class PushRecorder: PushHandler {
    private(set) var responsesByTag: [UInt64: [RecordedResponse]] = [:]
    private(set) var responseCount = 0
    private(set) var events: [PoolEvent] = []
    var onResponse: ((borrowing PushResponse) -> Void)?
    var onRoom: ((Pool) -> Void)?

    func pushResponseReceived(_ response: borrowing PushResponse) {
        responseCount += 1
        responsesByTag[response.tag, default: []]
            .append(
                RecordedResponse(
                    completion: response.completion,
                    status: response.status,
                    reason: response.reason,
                    reasonText: String(decoding: response.reasonText, as: UTF8.self),
                    invalidAtWallMilliseconds: response.invalidAtWallMilliseconds,
                    wasSent: response.sentAtWallMilliseconds != nil,
                    connection: response.connectionNumber,
                    disposition: response.disposition,
                    showsAcceptedProviderToken: response.showsAcceptedProviderToken
                )
            )
        onResponse?(response)
    }

    func poolHasRoom(_ pool: Pool) { onRoom?(pool) }

    func poolReported(_ event: PoolEvent) { events.append(event) }

    /// Returns the only response to a push. Fails the test if the push got several responses or none.
    func onlyResponse(to tag: UInt64, sourceLocation: SourceLocation = #_sourceLocation) throws -> RecordedResponse {
        let all = responsesByTag[tag] ?? []
        #expect(all.count == 1, "responses to push \(tag)", sourceLocation: sourceLocation)
        return try #require(all.first, sourceLocation: sourceLocation)
    }

    /// The number of pushes with exactly one response.
    var singleResponseCount: Int { responsesByTag.values.count { $0.count == 1 } }

    func count(_ completion: PushResponse.Completion) -> Int {
        responsesByTag.values.reduce(0) { $0 + $1.count { $0.completion == completion } }
    }

    var closeCauses: [CloseCause] {
        events.compactMap { if case .closed(_, let cause, _) = $0 { cause } else { nil } }
    }

    var retirementCauses: [RetirementCause] {
        events.compactMap { if case .retiring(_, let cause) = $0 { cause } else { nil } }
    }
}
