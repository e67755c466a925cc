import LiveActivity

/// The contracts of one lane's apps, and recent states with the result of their check. A state fits its app's contract
/// if the app's phones can decode the state.
struct LaneContracts: ~Copyable {
    /// The maximum number of remembered states that fit their app's contract: 32 KiB of digests. A power of two,
    /// because some bits of a digest are its index.
    static let digestsOfFittingStatesMax = 4_096

    private struct AppContract: BitwiseCopyable {
        /// Nil: the app has no contract.
        var contract: UnmanagedContract?
        /// Whether a command that does not fit the contract is rejected. If not, it only causes a warning.
        var rejectsMismatches: Bool
        /// A random number that is mixed into the digests of the app's states. So equal states of two apps have
        /// different digests, because the same state may fit the contract of one app and not that of the other.
        var salt: UInt64
    }

    /// The maximum number of remembered states that do not fit their app's contract. Few are enough, because a faulty
    /// producer usually repeats them. A power of two, because the lowest bits of a digest are its index.
    static let recentMismatchesMax = 64

    private struct RecentMismatch: BitwiseCopyable {
        var digest: UInt64 = 0
        /// Why the state does not fit, with a position that counts from the start of the content state. Nil: this
        /// element has no state.
        var mismatch: ContractMismatch?
    }

    private let appContracts: [AppContract]
    /// Whether any app has a contract.
    let hasAnyContract: Bool
    /// The digests of remembered states that fit their app's contract; 0: no digest. Has no elements if no app has a
    /// contract.
    ///
    /// The elements are in pairs, and some bits of a digest are the index of its pair. Each pair keeps the last two
    /// digests with these bits, the newest first.
    private let digestsOfFittingStates: UnsafeMutableBufferPointer<UInt64>
    /// Recent states that do not fit their app's contract. Producers repeat such states, and a remembered one is not
    /// compared again. The index of a state is the lowest bits of its digest. Has no elements if no app has a contract.
    private let recentMismatches: UnsafeMutableBufferPointer<RecentMismatch>
    /// The last states that fit their app's contract, with the positions of their values. If a new state differs from
    /// one of them only in values, only the values that differ are checked.
    var templates: RecentStateTemplates
    private(set) var comparedStateCount: UInt64 = 0
    /// The last command that fits its app's contract: the number that `ApsCache` gave to its `aps` dictionary (0:
    /// none), and the index of its app. A command with the same dictionary and app fits too.
    private var lastFittingDictionaryNumber: UInt64 = 0
    private var lastFittingAppIndex: UInt16 = 0

    /// - Parameter salt: a random number, different in each lane.
    init(_ apps: [ReloadableSettings.App], salt: UInt64) {
        appContracts = apps.enumerated()
            .map { position, app in
                AppContract(
                    contract: app.contract.map { UnmanagedContract(copying: $0.contract) },
                    rejectsMismatches: app.contract?.rejectsMismatches ?? false,
                    salt: (salt | 1) &* (UInt64(position) &* 2 &+ 1)
                )
            }
        hasAnyContract = apps.contains { $0.contract != nil }
        digestsOfFittingStates = .allocate(capacity: hasAnyContract ? Self.digestsOfFittingStatesMax : 0)
        digestsOfFittingStates.initialize(repeating: 0)
        recentMismatches = .allocate(capacity: hasAnyContract ? Self.recentMismatchesMax : 0)
        recentMismatches.initialize(repeating: RecentMismatch())
        templates = RecentStateTemplates(isNeeded: hasAnyContract)
    }

    deinit {
        for app in appContracts { app.contract?.deallocate() }
        digestsOfFittingStates.deallocate()
        recentMismatches.deallocate()
    }

    /// Returns why no phone of the app could decode the command; nil if a phone could, or if the app has no contract.
    ///
    /// A state is not compared in full with the contract if any of these is true:
    /// - Its app and its `aps` dictionary are those of the last command that fits (`lastFittingDictionaryNumber`).
    /// - Its digest is remembered. (Of a start, only the digest of a state that fits counts: `rememberedMismatch`.)
    /// - It differs from a remembered state only in values, and these values fit.
    ///
    /// - Parameter apsDictionaryNumber: the number that ``ApsCache`` gave to the `aps` dictionary. Dictionaries with
    ///   the same number are equal.
    mutating func findMismatch(
        of command: Command,
        _ appIndex: UInt16,
        apsDictionaryNumber: UInt64,
        in value: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        guard let contract = appContracts[Int(appIndex)].contract else { return nil }
        if apsDictionaryNumber == lastFittingDictionaryNumber, appIndex == lastFittingAppIndex { return nil }
        if !templates.hasMatched(command, ofApp: appIndex),
            let mismatch = recallOrFindMismatch(of: command, appIndex, contract, in: value)
        {
            return mismatch
        }
        (lastFittingDictionaryNumber, lastFittingAppIndex) = (apsDictionaryNumber, appIndex)
        return nil
    }

    /// Returns why a state does not fit its app's contract; nil if it fits. Uses the result that the lane remembers for
    /// the state, or else compares the state with the contract.
    private mutating func recallOrFindMismatch(
        of command: Command,
        _ appIndex: UInt16,
        _ contract: UnmanagedContract,
        in value: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        let digest = command.digestOfCheckedParts(in: value) ^ appContracts[Int(appIndex)].salt
        let index = Int(truncatingIfNeeded: digest & UInt64(Self.digestsOfFittingStatesMax &- 2))
        if digest != 0, digestsOfFittingStates[index] == digest || digestsOfFittingStates[index &+ 1] == digest {
            return nil
        }
        if !templates.matchesAnyTemplate(command, ofApp: appIndex, in: value),
            let mismatch = rememberedMismatch(digest, of: command)
                ?? compareWithShapes(command, appIndex, contract, digest, value)
        {
            return mismatch
        }
        (digestsOfFittingStates[index], digestsOfFittingStates[index &+ 1]) = (digest, digestsOfFittingStates[index])
        return nil
    }

    /// Returns why a state does not fit its app's contract, if `recentMismatches` has the state; nil: the state must be
    /// compared with the contract. Always nil for a start: its mismatch may be in the attributes, and the remembered
    /// position counts from the content state.
    private func rememberedMismatch(_ digest: UInt64, of command: Command) -> ContractMismatch? {
        let index = Int(truncatingIfNeeded: digest & UInt64(Self.recentMismatchesMax &- 1))
        guard command.event != .start, recentMismatches[index].digest == digest,
            var mismatch = recentMismatches[index].mismatch
        else {
            return nil
        }
        mismatch.offset += Int(command.contentState.offset)
        return mismatch
    }

    /// Compares a state with the shapes of its contract, and remembers the result. Returns why the state does not fit;
    /// nil if it fits.
    @inline(never)
    private mutating func compareWithShapes(
        _ command: Command,
        _ appIndex: UInt16,
        _ contract: UnmanagedContract,
        _ digest: UInt64,
        _ value: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        comparedStateCount &+= 1
        do throws(ContractMismatch) {
            try templates.checkAndRemember(command, ofApp: appIndex, contract, in: value)
            return nil
        } catch {
            var mismatch = error
            mismatch.offset -= Int(command.contentState.isAbsent ? 0 : command.contentState.offset)
            let index = Int(truncatingIfNeeded: digest & UInt64(Self.recentMismatchesMax &- 1))
            recentMismatches[index] = RecentMismatch(digest: digest, mismatch: mismatch)
            return error
        }
    }

    func rejectsMismatches(_ appIndex: UInt16) -> Bool { appContracts[Int(appIndex)].rejectsMismatches }

    /// Returns a text that says what does not fit the contract; empty if the app has no contract. With `showsValue`,
    /// the text quotes the value that does not fit, so it must not go to the log.
    func message(
        _ mismatch: ContractMismatch,
        of command: Command,
        _ appIndex: UInt16,
        in value: UnsafeRawBufferPointer,
        showsValue: Bool
    ) -> String {
        appContracts[Int(appIndex)].contract?.message(mismatch, command, in: value, showsValue: showsValue)
            ?? ""
    }
}
