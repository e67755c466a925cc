import Testbed
import Testing

/// The function with which tests change a configuration.
@Suite struct ReplacementTests {
    @Test func `A part is replaced`() {
        #expect("keyFile: key.p8\n".replacingRequired("key.p8", with: "new.p8") == "keyFile: new.p8\n")
    }

    @Test func `A missing part is an issue, and the text stays`() {
        withKnownIssue {
            #expect("keyFile: key.p8\n".replacingRequired("keyId", with: "teamId") == "keyFile: key.p8\n")
        } matching: { issue in
            issue.error == nil && "\(issue)".contains("the text does not contain the part to replace: keyId")
        }
    }
}
