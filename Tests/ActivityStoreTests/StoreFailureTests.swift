import ActivityStore
import LiveActivity
import Redis
import Testing

/// What an error of Redis means to the cores. (R23)
@Suite struct StoreFailureTests {
    private static let codes = RedisError.Code.allCases

    @Test(arguments: [RedisError.Code.loading, .outOfMemory, .busy, .misconfigured, .noReplicas])
    func `A full or busy server pauses all calls only if it is the only server`(code: RedisError.Code) {
        let error = RedisError(code)
        #expect(error.storeFailure(hasSeveralServers: false) == .serverRefusesMostCalls)
        #expect(error.storeFailure(hasSeveralServers: true) == .retriableAfterPause)
    }

    @Test func `With several servers no error pauses all calls, and all other errors mean the same`() {
        for error in Self.codes.map({ RedisError($0) }) {
            let (failure, failureInCluster) = (error.storeFailure, error.storeFailure(hasSeveralServers: true))
            #expect(failureInCluster != .serverRefusesMostCalls, "\(error)")
            #expect(failureInCluster == failure || failure == .serverRefusesMostCalls, "\(error)")
        }
    }
}
