import COpenSSL
import Glibc
import Testbed
import Testing

@testable import APNs

/// One provider token for all workers: which process signs, which tokens are accepted, and what Redis stores.
@Suite(.ownThread) struct ProviderTokenRenewalTests {
    private let nowSeconds: Int64 = 1_800_000_000

    private func storedToken(ageSeconds: Int64, iat: Int64? = nil) -> ProviderTokenRenewal.StoredToken {
        ProviderTokenRenewal.StoredToken(
            token: SharedToken(text: "a.b.c", issuedAtSeconds: iat ?? nowSeconds - ageSeconds),
            remainingMilliseconds: ProviderTokenRenewal.timeToLiveMilliseconds - ageSeconds * 1_000
        )
    }

    private func nextAction(
        _ storedToken: ProviderTokenRenewal.StoredToken?,
        tokenIssuedAtSeconds: Int64? = nil,
        refusedTokenIssuedAtSeconds: Int64? = nil
    ) -> ProviderTokenRenewal.Action {
        ProviderTokenRenewal.nextAction(
            storedToken,
            tokenIssuedAtSeconds: tokenIssuedAtSeconds,
            refusedTokenIssuedAtSeconds: refusedTokenIssuedAtSeconds,
            unixSeconds: nowSeconds
        )
    }

    private func nextActionWithoutLease(
        _ storedToken: ProviderTokenRenewal.StoredToken?,
        tokenIssuedAtSeconds: Int64? = nil,
        refusedTokenIssuedAtSeconds: Int64? = nil
    ) -> ProviderTokenRenewal.Action {
        ProviderTokenRenewal.nextActionWithoutLease(
            storedToken,
            tokenIssuedAtSeconds: tokenIssuedAtSeconds,
            refusedTokenIssuedAtSeconds: refusedTokenIssuedAtSeconds,
            unixSeconds: nowSeconds
        )
    }

    @Test func `A token is renewed after 35 minutes`() {
        #expect(nextAction(nil) == .renew)
        #expect(nextAction(storedToken(ageSeconds: 2_100)) == .renew)
        #expect(
            nextAction(storedToken(ageSeconds: 2_099))
                == .adopt(SharedToken(text: "a.b.c", issuedAtSeconds: nowSeconds - 2_099))
        )
    }

    @Test func `A token in use is kept`() {
        #expect(nextAction(storedToken(ageSeconds: 60), tokenIssuedAtSeconds: nowSeconds - 60) == .keep)
    }

    /// Only Redis' time decides when a token is renewed. Otherwise a process with a wrong clock would sign tokens.
    @Test(arguments: [-301, 3_300, 100_000] as [Int64])
    func `A token that the process's own clock does not allow is neither used nor replaced`(ageSeconds: Int64) {
        #expect(nextAction(storedToken(ageSeconds: 60, iat: nowSeconds - ageSeconds)) == .keep)
        #expect(nextActionWithoutLease(storedToken(ageSeconds: 60, iat: nowSeconds - ageSeconds)) == .keep)
    }

    /// Redis' clock was set back by ten minutes, so the token seems to have longer to live than any token gets. This
    /// worker uses Redis' time.
    @Test func `A token from the future is replaced if Redis' clock was set back`() {
        var stored = storedToken(ageSeconds: -301)
        #expect(nextAction(stored) == .renew)
        #expect(nextAction(stored, tokenIssuedAtSeconds: nowSeconds) == .keep)
        #expect(nextActionWithoutLease(stored) == .keep)
        stored.remainingMilliseconds = ProviderTokenRenewal.timeToLiveMilliseconds
        #expect(nextAction(stored) == .keep, "only this process's clock is behind")
        #expect(nextAction(storedToken(ageSeconds: -300)) != .renew, "the token can still be used")
    }

    /// Redis' clock was set back by more than 35 minutes, and this worker does not follow it. Without a renewal, all
    /// workers would sign at once when the token is 55 minutes old.
    @Test func `After Redis' clock was set back, a worker renews the token in use by its own clock`() {
        func nextAction(ageSeconds: Int64, extraMilliseconds: Int64) -> ProviderTokenRenewal.Action {
            var stored = storedToken(ageSeconds: ageSeconds)
            stored.remainingMilliseconds = ProviderTokenRenewal.timeToLiveMilliseconds + extraMilliseconds
            return self.nextAction(stored, tokenIssuedAtSeconds: nowSeconds - ageSeconds)
        }
        #expect(nextAction(ageSeconds: 2_101, extraMilliseconds: 1) == .renew)
        #expect(nextAction(ageSeconds: 2_100, extraMilliseconds: 1) == .renew)
        #expect(nextAction(ageSeconds: 2_099, extraMilliseconds: 1) == .keep)
        #expect(nextAction(ageSeconds: 2_101, extraMilliseconds: 0) == .keep, "perhaps this process's clock is ahead")
    }

    @Test(arguments: [-300, 3_299] as [Int64])
    func `Clocks may differ by five minutes`(ageSeconds: Int64) {
        #expect(nextAction(storedToken(ageSeconds: 60, iat: nowSeconds - ageSeconds)) != .keep)
    }

    @Test func `A token that was refused is not used again`() {
        #expect(nextAction(storedToken(ageSeconds: 60), refusedTokenIssuedAtSeconds: nowSeconds - 60) == .keep)
        #expect(nextAction(storedToken(ageSeconds: 60), refusedTokenIssuedAtSeconds: nowSeconds - 61) != .keep)
        // After 20 minutes, Apple allows the team another token.
        #expect(nextAction(storedToken(ageSeconds: 1_199), refusedTokenIssuedAtSeconds: nowSeconds - 1_199) == .keep)
        #expect(nextAction(storedToken(ageSeconds: 1_200), refusedTokenIssuedAtSeconds: nowSeconds - 1_200) == .renew)
        #expect(
            nextAction(
                storedToken(ageSeconds: 1_200),
                tokenIssuedAtSeconds: nowSeconds,
                refusedTokenIssuedAtSeconds: nowSeconds - 1_200
            ) == .keep,
            "the process has signed one of its own meanwhile"
        )
        // The token's renewal is due, and another process signs.
        #expect(
            nextActionWithoutLease(storedToken(ageSeconds: 2_500), refusedTokenIssuedAtSeconds: nowSeconds - 2_500)
                == .keep
        )
        #expect(
            nextActionWithoutLease(storedToken(ageSeconds: 2_500), refusedTokenIssuedAtSeconds: nowSeconds - 2_501)
                != .keep
        )
    }

    @Test func `A stored token that this process cannot read is not renewed early`() {
        #expect(nextAction(ProviderTokenRenewal.StoredToken(token: nil, remainingMilliseconds: 3_000_000)) == .keep)
    }

    @Test func `A process without a token uses the old one while another process signs`() {
        let oldToken = storedToken(ageSeconds: 2_500)
        let token = SharedToken(text: "a.b.c", issuedAtSeconds: nowSeconds - 2_500)
        #expect(nextActionWithoutLease(oldToken) == .adopt(token))
        #expect(nextActionWithoutLease(oldToken, tokenIssuedAtSeconds: nowSeconds - 2_500) == .keep)
        #expect(nextActionWithoutLease(nil) == .keep)
    }

    @Test(arguments: [
        "", "1800000000", "x a.b.c", "1800000000 ", "1800000000 a b", "1800000000 a\r\nb", "99999999999999999999 a",
    ])
    func `An invalid token is not read`(text: String) {
        #expect(SharedToken(encodedText: text) == nil)
    }

    // MARK: - The source of provider tokens

    /// Returns a new key with its own file, because tests that run in parallel write key files too.
    private func makeKey() throws -> SigningKey {
        let file = TestCredentials.keyPath("Shared-\(UInt64.random(in: .min ... .max)).p8")
        try writeFile(file, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        return try SigningKey(path: file)
    }

    private func makeSource(_ key: SigningKey? = nil) throws -> ProviderTokenSource {
        try ProviderTokenSource(
            key: key ?? makeKey(),
            keyId: "ABC123DEFG",
            teamId: "TEAM123456"
        )
    }

    /// Returns two sources of the same key, as two workers have. They share tokens.
    private func makeSharingSources() throws -> (ProviderTokenSource, ProviderTokenSource) {
        let key = try makeKey()
        let sources = (try makeSource(key), try makeSource(key))
        sources.0.beginSharing()
        sources.1.beginSharing()
        return sources
    }

    @Test func `A shared token is used to its end, and then one of the process's own`() throws {
        let (signer, source) = try makeSharingSources()
        let token = try #require(signer.signSharedToken(keyId: "ABC123DEFG", unixSeconds: nowSeconds))
        source.adopt(token, keyId: "ABC123DEFG")
        #expect(source.provideToken(unixSeconds: nowSeconds - 300)?.text == token.text, "the signer's clock is ahead")
        #expect(source.provideToken(unixSeconds: nowSeconds + 3_299)?.text == token.text, "Redis is away")
        let ownToken = try #require(source.provideToken(unixSeconds: nowSeconds + 3_300))
        #expect(ownToken.issuedAtSeconds == nowSeconds + 3_300)
    }

    @Test func `A token of another key is not used`() throws {
        let source = try makeSource()
        source.beginSharing()
        source.adopt(SharedToken(text: "a.b.c", issuedAtSeconds: nowSeconds), keyId: "OTHERKEY00")
        #expect(source.keyAndIssueTimes.tokenIssuedAtSeconds == nil)
        #expect(source.signSharedToken(keyId: "OTHERKEY00", unixSeconds: nowSeconds) == nil)
        // Another worker's file has another key under the same id.
        let otherToken = try makeSource().signSharedToken(keyId: "ABC123DEFG", unixSeconds: nowSeconds)
        source.adopt(try #require(otherToken), keyId: "ABC123DEFG")
        #expect(source.keyAndIssueTimes.tokenIssuedAtSeconds == nil)
    }

    @Test func `A token that was signed for all is also used by its signer`() throws {
        let source = try makeSource()
        source.beginSharing()
        let token = try #require(source.signSharedToken(keyId: "ABC123DEFG", unixSeconds: nowSeconds))
        #expect(SharedToken(encodedText: token.encodedText) == token)
        #expect(source.provideToken(unixSeconds: nowSeconds)?.text == token.text)
        let tokenInUse = try #require(source.provideToken(unixSeconds: nowSeconds))
        source.forgetRefusedToken(tokenInUse, unixSeconds: nowSeconds + 1_300)
        #expect(source.keyAndIssueTimes.refusedTokenIssuedAtSeconds == nowSeconds)
        #expect(source.keyAndIssueTimes.tokenIssuedAtSeconds == nil)
    }

    /// APNs refuses the token of all workers. If each of them signed at once, the team would create too many tokens.
    @Test func `After a refusal, a worker waits for the others' token`() throws {
        let (signer, source) = try makeSharingSources()
        let token = try #require(signer.signSharedToken(keyId: "ABC123DEFG", unixSeconds: nowSeconds))
        source.adopt(token, keyId: "ABC123DEFG")
        let refusedAtSeconds = nowSeconds + 1_300
        func refuse() throws {
            let tokenInUse = try #require(source.provideToken(unixSeconds: refusedAtSeconds))
            source.forgetRefusedToken(tokenInUse, unixSeconds: refusedAtSeconds)
        }
        try refuse()
        #expect(source.provideToken(unixSeconds: refusedAtSeconds) == nil)
        #expect(source.awaitsSharedToken)
        let newToken = try #require(
            signer.signSharedToken(keyId: "ABC123DEFG", unixSeconds: refusedAtSeconds + 1)
        )
        source.adopt(newToken, keyId: "ABC123DEFG")
        #expect(source.provideToken(unixSeconds: refusedAtSeconds + 1)?.text == newToken.text)
        #expect(!source.awaitsSharedToken)
        // Nobody signs a token, or Redis is away.
        source.adopt(token, keyId: "ABC123DEFG")
        try refuse()
        #expect(source.provideToken(unixSeconds: refusedAtSeconds + 14) == nil)
        #expect(source.provideToken(unixSeconds: refusedAtSeconds + 15) != nil)
        source.adopt(token, keyId: "ABC123DEFG")
        try refuse()
        source.noteSharing(isInterrupted: true)
        #expect(source.provideToken(unixSeconds: refusedAtSeconds) != nil)
    }

    /// The key file of all workers is replaced. If each of them signed a token for the trial, the team would create too
    /// many tokens.
    @Test func `All workers try a new key with one token`() throws {
        let (signer, source) = try makeSharingSources()
        let newKey = try makeKey()
        for worker in [signer, source] { try worker.offer(newKey, keyId: "NEXTKEY000") }
        #expect(source.beginKeyTrial(unixSeconds: nowSeconds) == nil, "the shared token is awaited")
        #expect(source.awaitsSharedToken)
        #expect(source.candidateKeyAndIssueTimes?.keyId == "NEXTKEY000")
        let token = try #require(signer.signSharedToken(keyId: "NEXTKEY000", unixSeconds: nowSeconds))
        source.adopt(token, keyId: "NEXTKEY000")
        #expect(!source.awaitsSharedToken)
        for worker in [signer, source] {
            let first = try #require(worker.beginKeyTrial(unixSeconds: nowSeconds))
            worker.endKeyTrial(of: first, .inconclusive)
            let second = try #require(worker.beginKeyTrial(unixSeconds: nowSeconds + 60))
            #expect(first.text == token.text && second.text == token.text)
            worker.endKeyTrial(of: second, .accepted)
            #expect(worker.provideToken(unixSeconds: nowSeconds + 61)?.text == token.text)
        }
    }

    /// A pool tries a new key for so long that the token of the trials becomes too old.
    @Test func `A trial whose token has become too old waits for a shared one`() throws {
        let (signer, source) = try makeSharingSources()
        let newKey = try makeKey()
        for worker in [signer, source] { try worker.offer(newKey, keyId: "NEXTKEY000") }
        func signAndAdopt(atSeconds: Int64) throws -> SharedToken {
            let token = try #require(signer.signSharedToken(keyId: "NEXTKEY000", unixSeconds: atSeconds))
            source.adopt(token, keyId: "NEXTKEY000")
            return token
        }
        _ = try signAndAdopt(atSeconds: nowSeconds)
        let trial = try #require(source.beginKeyTrial(unixSeconds: nowSeconds))
        source.endKeyTrial(of: trial, .inconclusive)
        #expect(!source.awaitsSharedToken)
        let laterSeconds = nowSeconds + ProviderTokenTimes.ageSecondsMax
        #expect(source.beginKeyTrial(unixSeconds: laterSeconds) == nil)
        #expect(source.awaitsSharedToken)
        let newToken = try signAndAdopt(atSeconds: laterSeconds)
        #expect(!source.awaitsSharedToken)
        #expect(source.beginKeyTrial(unixSeconds: laterSeconds)?.text == newToken.text)
    }

    @Test func `A trial does not wait for a shared token forever, nor use one of another key`() throws {
        let (signer, source) = try makeSharingSources()
        try signer.offer(makeKey(), keyId: "NEXTKEY000")
        try source.offer(makeKey(), keyId: "NEXTKEY000")
        let token = try #require(signer.signSharedToken(keyId: "NEXTKEY000", unixSeconds: nowSeconds))
        source.adopt(token, keyId: "NEXTKEY000")
        #expect(source.beginKeyTrial(unixSeconds: nowSeconds) == nil)
        #expect(source.beginKeyTrial(unixSeconds: nowSeconds + 14) == nil)
        let ownToken = try #require(source.beginKeyTrial(unixSeconds: nowSeconds + 15))
        #expect(ownToken.text != token.text)
        // Redis has only one token for each id, so a candidate with the id of the key in use needs no wait.
        try source.offer(makeKey(), keyId: "ABC123DEFG")
        #expect(source.candidateKeyAndIssueTimes == nil)
        #expect(source.beginKeyTrial(unixSeconds: nowSeconds) != nil)
    }

    /// A pool that sends nothing cannot try a new key. After 30 s another pool may try it.
    @Test func `A trial without a result is given to another pool`() throws {
        let source = try makeSource()
        let file = TestCredentials.keyPath("Trial.p8")
        try writeFile(file, privateKeyPEM(curve: NID_X9_62_prime256v1), mode: 0o600)
        try source.offer(SigningKey(path: file), keyId: "NEXTKEY000")
        let first = try #require(source.beginKeyTrial(unixSeconds: nowSeconds))
        #expect(source.beginKeyTrial(unixSeconds: nowSeconds + 29) == nil)
        let second = try #require(source.beginKeyTrial(unixSeconds: nowSeconds + 30))
        source.endKeyTrial(of: first, .refused(.invalidProviderToken))
        #expect(source.keyStatus.candidateKeyId == "NEXTKEY000", "it is the second one's to say")
        source.endKeyTrial(of: second, .accepted)
        #expect(source.keyStatus.keyId == "NEXTKEY000")
    }

    // MARK: - The encryption of shared tokens

    private func makeCipher(_ text: String) throws -> ProviderTokenCipher {
        let file = TestCredentials.keyPath("Seal-\(UInt64.random(in: .min ... .max)).key")
        try writeFile(file, text, mode: 0o600)
        return try ProviderTokenCipher(keyFile: file)
    }

    private func makeCipher(_ bytes: Range<UInt8>) throws -> ProviderTokenCipher {
        try makeCipher(String(decoding: bytes, as: UTF8.self))
    }

    @Test func `A sealed text is opened only with the same key and name`() throws {
        // `cipherOfBytes` and `cipherOfBase64` have the same key. It is given once as 32 bytes and once in Base64.
        let cipherOfBytes = try makeCipher(0..<32)
        let cipherOfBase64 = try makeCipher("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
        let ciphertext = try #require(cipherOfBytes.seal("1800000000 a.b.c", name: "T/K"))
        #expect(cipherOfBase64.open(ciphertext, name: "T/K") == "1800000000 a.b.c")
        #expect(cipherOfBase64.open(ciphertext, name: "T/L") == nil)
        #expect(try makeCipher(1..<33).open(ciphertext, name: "T/K") == nil)
        #expect(cipherOfBytes.seal("1800000000 a.b.c", name: "T/K") != ciphertext, "each has a nonce of its own")
        for position in ciphertext.indices {
            var changedCiphertext = ciphertext
            changedCiphertext[position] ^= 1
            #expect(cipherOfBytes.open(changedCiphertext, name: "T/K") == nil)
        }
        for count in 0..<ciphertext.count {
            #expect(cipherOfBytes.open(Array(ciphertext.prefix(count)), name: "T/K") == nil)
        }
    }

    @Test func `A sealed text is 28 bytes longer than the text`() throws {
        let ciphertext = try #require(try makeCipher(0..<32).seal("abc", name: ""))
        // A nonce of 12 bytes, the text's three bytes, and a tag of 16 bytes, which shows whether the text was changed.
        #expect(ciphertext.count == 12 + 3 + 16)
    }

    @Test(arguments: [
        "", "short", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", "!AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    ])
    func `A key file of a wrong form is refused`(text: String) {
        #expect(throws: InvalidSettingError.self) { try makeCipher(text) }
    }

    @Test func `A shared token that fits no header is refused, and does not trap`() {
        let bytesMax = HeaderEncoder.authorizationBytesMax - "bearer ".utf8.count
        #expect(SharedToken(encodedText: "1790000000 " + String(repeating: "a", count: bytesMax)) != nil)
        #expect(SharedToken(encodedText: "1790000000 " + String(repeating: "a", count: bytesMax + 1)) == nil)
    }
}
