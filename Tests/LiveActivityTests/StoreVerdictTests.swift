import LiveActivity
import Testing

@Suite struct StoreVerdictTests {
    @Test(arguments: StoreVerdict.allCases)
    func `A verdict has one name in the script and for each call`(verdict: StoreVerdict) {
        let name = "\(verdict)"
        #expect("\(verdict.scriptWord)" == name)
        if let admissionVerdict = AdmissionVerdict(verdict) { #expect("\(admissionVerdict)" == name) }
        if let startTokenVerdict = StartTokenVerdict(verdict) { #expect("\(startTokenVerdict)" == name) }
        if let holdVerdict = HoldVerdict(verdict) { #expect("\(holdVerdict)" == name) }
    }

    @Test(arguments: AudienceVerdict.allCases)
    func `A verdict about an audience keeps its name for an admission`(verdict: AudienceVerdict) {
        if let admissionVerdict = AudienceAdmissionVerdict(verdict) { #expect("\(admissionVerdict)" == "\(verdict)") }
    }
}
